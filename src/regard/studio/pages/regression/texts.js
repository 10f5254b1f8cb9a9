// The texts of the regression page. Both tables have the same keys; a test compares them.

export const EN = {
  tab: "Regression",
  title: "Attention as regression", lead: "A prediction is a mean of the targets, near points weighing more: queries x, keys xᵢ, values yᵢ, weights softmax(−½((x − xᵢ)w)²). Move the width.", width: "Width", useLearned: "Use the learned width", kernel: "Kernel", kernels: { gaussian: "Gaussian", epanechnikov: "Epanechnikov", triangular: "triangular", box: "box" }, noise: "Noise", count: "Points", builtIn: "Back to the textbook's curve", points: (n) => `${n} points`, dropped: (n) => `${n} lines without numbers left out`, tooLarge: "at most 1 MB; `regard fit` reads larger files", tooMany: (n) => `${n} points are more than the page's 2,000; \`regard fit\` takes millions`, empty: "the file is empty", noColumns: "it needs two columns of numbers, x and y",
  chart: "Data and fit", fit: (w) => `Nadaraya–Watson, w = ${w}`, average: "average pooling", learned: (w) => `learned width, w = ${w}`, truth: "the truth, 2 sin x + x⁰·⁸", query: "Query", matrix: "Weights", matrixNote: "queries down, points across; each row sums to 1", errors: "Leave-one-out error by width", mse: "mean squared error", loo: "leave-one-out error", looLearned: "with the learned width", looAverage: "average pooling", widthLearned: "learned width", dataTitle: "Data", open: "Open a CSV", dropHere: "Drop a CSV here: its first two columns of numbers are x and y. It stays on this machine.",
  refusals: {
    csv: "The file cannot be read:",
  },
  refusalsWithMessage: ["csv"],
};

export const ZH = {
  tab: "回归",
  title: "注意力就是回归", lead: "预测值是目标的加权平均，近处的点权重更大：查询 x，键 xᵢ，值 yᵢ，权重 softmax(−½((x − xᵢ)w)²)。拖动宽度看看。", width: "宽度", useLearned: "采用学到的宽度", kernel: "核函数", kernels: { gaussian: "高斯", epanechnikov: "Epanechnikov", triangular: "三角", box: "矩形" }, noise: "噪声", count: "点数", builtIn: "回到课本的曲线", points: (n) => `${n} 个点`, dropped: (n) => `略去 ${n} 行没有数字的内容`, tooLarge: "最大 1 MB；更大的文件请用 `regard fit`", tooMany: (n) => `${n} 个点超过了页面的上限 2,000；\`regard fit\` 可处理数百万个点`, empty: "文件是空的", noColumns: "需要两列数字：x 和 y",
  chart: "数据与拟合", fit: (w) => `Nadaraya–Watson，w = ${w}`, average: "平均汇聚", learned: (w) => `学到的宽度，w = ${w}`, truth: "真实函数 2 sin x + x⁰·⁸", query: "查询", matrix: "权重", matrixNote: "查询为行，数据点为列；每行之和为 1", errors: "留一误差随宽度的变化", mse: "均方误差", loo: "留一误差", looLearned: "采用学到的宽度", looAverage: "平均汇聚", widthLearned: "学到的宽度", dataTitle: "数据", open: "打开 CSV", dropHere: "把 CSV 文件拖到这里：前两列数字为 x 和 y。数据不会离开本机。",
  refusals: {
    csv: "无法读取文件：",
  },
  refusalsWithMessage: ["csv"],
};
