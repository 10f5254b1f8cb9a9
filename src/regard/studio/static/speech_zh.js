// 工作室的中文文字。与英文表同形，由测试保证。

const PARTS = { "token embedding": "词嵌入", "position embedding": "位置嵌入", "token types": "片段嵌入", "embedding projection": "嵌入投影", "relative positions": "相对位置", query: "查询", key: "键", value: "值", output: "输出", mlp: "前馈层", norms: "归一化", unembedding: "解嵌入", experts: "专家", "shared experts": "共享专家", router: "路由", latent: "潜变量", pooler: "汇聚层", sinks: "汇点", "cross query": "交叉查询", "cross key": "交叉键", "cross value": "交叉值", "cross output": "交叉输出", scores: "打分", "scores, again": "重算打分", "weighted sum": "加权和", weights: "权重", "key-value cache": "键值缓存", activations: "激活", "activations kept for the backward pass": "为反向传播保留的激活", "activations at the peak beside it": "峰值处的其他激活", gradients: "梯度", "adamw states": "AdamW 状态", "bf16 copy of the weights": "权重的 bf16 副本" };
const PIECES = { "one query matrix": "一个查询矩阵", "one key matrix": "一个键矩阵", "one value map, whole": "一个完整的值映射", "one value map, factored (Value↓ + Value↑)": "分解后的值映射（Value↓ + Value↑）", "one head": "一个头", "one layer's attention": "一层的注意力" };
const CURVES = { projections: "投影", "dense attention": "稠密注意力", "our attention": "本库的注意力", "our attention, streamed": "本库的流式注意力" };
const LAWS = { projections: "投影", "scores and values": "打分与加权和", "they are equal at N": "两者相等时的 N", "naive memory, numbers": "朴素做法的存储（个数）", "ours, numbers": "本库的存储（个数）" };

export const ZH = {
  rooms: { translate: "翻译", look: "透视", steps: "步骤", regression: "回归", cost: "开销" },
  shell: {
    rooms: "房间", skip: "跳到正文", other: "English", otherTitle: "Switch to English", light: "浅色", dark: "深色", keys: "快捷键", close: "关闭", link: "复制链接", copied: "已复制", copy: "复制", save: "保存",
    same: "同样的结果，用命令行或 Python", working: "计算中……", inLine: (n) => `排队中，前面还有 ${n} 个`, cancel: "取消",
    keyList: [["Alt 1 … 5", "切换房间"], ["l", "中文 / English"], ["t", "浅色 / 深色"], ["?", "本列表"], ["Tab", "在控件之间移动"], ["← → ↑ ↓", "在词之间、单元格之间移动"], ["[ ] { }", "在图样中切换头与层"], ["Enter", "翻译；Ctrl Enter：透视"], ["Esc", "取消固定"]],
  },
  plainErrors: ["invalid", "failed", "unseen", "changed", "csv", "unknown_model"],
  errors: {
    invalid: "无法完成：", failed: "任务失败，工作室继续运行。", unseen: "无法透视这个模型：", changed: ({ name }) => `${name} 的文件与模型卡片记录的不一致，因此没有打开。详情：`, csv: "无法读取文件：", json: "这不是 JSON。请粘贴完整的 config.json。",
    busy: "排队的任务太多，请稍后再试。", late: ({ seconds }) => `超过 ${seconds} 秒，已停止。请减少工作量。`, memory: ({ needed, free }) => `大约需要 ${needed} GB 内存，而空闲只有 ${free} GB。请缩短文本。`,
    large: ({ most }) => `内容过大：最多 ${Number(most).toLocaleString("en-US")} 字节。`, crashed: "任务进程意外终止，多半是内存不足。已启动新进程，请换一段较短的文本。",
    gone: "工作室没有应答。终端里的程序还在运行吗？", unknown_model: "没有这个模型。", unknown_sight: "这段文本的记录已被清除，请重新透视。", no_word: ({ name, word, sentence }) => `在“${sentence}”中，${name} 的词元里没有“${word}”。请换一个认识这个词的模型，或换一个句子。`, few: "请给出一个词，以及至少两句包含它的句子，每行一句。", slow: "请求到达得太慢。", origin: "工作室只应答自己的页面。", host: "工作室只以 127.0.0.1 或 localhost 的名义应答。",
  },
  translate: {
    title: "翻译，并看清它读了哪里", lead: "模型每写一个词，都会看一眼原文。把鼠标移到任意一侧的词上（或按 Tab 键），就能看到与它对齐的词。", source: "要翻译的文本", placeholder: "输入一个句子", from: "源语言", languages: { zh: "中文", de: "德语", "": "其他" }, models: "模型", examples: "例句",
    roles: { transformer: "Transformer，有注意力", bahdanau: "循环网络，有注意力", fixed: "循环网络，只有一个固定向量，无注意力" },
    attention: "注意力", soft: "软性", hard: "硬性", softTitle: "每个目标词按权重混合所有源词", hardTitle: "每个目标词只读一个源位置：权重最大的那个（温度趋于 0 的极限）", withSoft: (text) => `用软性注意力时：${text}`,
    beam: "束搜索找到的候选", logProb: "对数概率", ranked: "按得分从高到低：对数概率除以长度惩罚，以免长句只因为长而吃亏。", noAlignment: "这个模型把整句压成一个固定向量，没有对齐可看。", parts: (n) => `文本较长，分成 ${n} 段来读：`,
    together: "并排比较", fixedWhy: "没有注意力时，整句话都要挤进一个向量，句子一长就会丢失内容。", byLength: "不同句长的得分", testSet: "测试集", fromCards: "数据来自模型卡片：测试句按长度分组，每个点画在本组的中间。", lengthRow: (least, most, n) => `${least} 到 ${most} 个词元，${n} 句`, sourceLength: "源句长度（词元）", sentences: "句数",
    unknown: (characters) => `以下字符模型从未见过，按未知处理：${characters}`, mostlyUnknown: (name, language) => `这段文本的大部分字符 ${name} 从未见过${language ? `（它读${language}）` : ""}，译文没有意义。`, foreign: (name, language) => `${name} 读的是${language}，而这段文本看起来不是，译文没有意义。`,
    none: "这里没有翻译模型。请先训练一个，或在启动工作室时指定它的文件夹：",
    samples: { zh: ["我爱中国。", "你今天晚上想吃什么？", "他昨天买了一本新书。", "我不知道他什么时候回来。"], de: ["Was möchtest du heute Abend essen?", "Ich weiß nicht, wann er zurückkommt.", "Sie liest jeden Abend ein Buch.", "Wo ist der Bahnhof?"], "": ["a b c d", "d c b a a", "a c e g b"] },
  },
  look: {
    title: "透视模型内部", kinds: { lm: "语言模型", classify: "分类模型", "transformer translator": "Transformer 翻译模型", "bahdanau translator": "循环网络翻译模型" }, lead: "粘贴一段文本：每一层的每一个头在看哪里、起什么作用，并附证明——这些正是模型自己的数。", model: "模型", text: "要透视的文本", look: "透视", open: "打开文件", keys: "Ctrl Enter · 最多 100,000 个词元", examples: "例句", none: "这里没有带注意力的模型。启动工作室时请指定文件夹：",
    facts: (read, whole, ms) => `读入 ${read} 个词元${whole ? `（共 ${whole} 个，模型最多读这么多）` : ""}，用时 ${ms} 毫秒`,
    samples: { play: ["ROMEO:\nBut, soft! what light through yonder window breaks?", "To be, or not to be: that is the question", "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!"], zh: ["我爱中国。", "他昨天买了一本新书。", "我给你打电话，我们打车去吧。"], de: ["Was möchtest du heute Abend essen?", "Ich weiß nicht, wann er zurückkommt."], "": ["The animal didn't cross the street because it was too tired.", "The FBI is chasing a criminal on the run.", "a fluffy blue creature roamed the verdant forest"] },
    whatIf: {
      title: "假如……", at: (layer, head) => `第 ${layer} 层第 ${head} 个头（上面选中的那个）`, do: "改动", whats: { mute: "屏蔽", temperature: "温度", window: "窗口", forget: "遮住开头" }, scope: "范围", oneHead: "这个头", wholeLayer: "整层", apply: "应用改动", active: "已改动", remove: "撤销", clear: "全部撤销", positions: (n) => `± ${n}`, tokens: (n) => `${n} 个`,
      told: (c) => `${c.layer}.${c.head === null ? "*" : c.head} ${{ mute: "已屏蔽", temperature: "温度", window: "窗口", forget: "遮住开头" }[c.what]}${c.what === "mute" ? "" : " " + Number(Number(c.value).toPrecision(3))}`, hint: "先在上面选一个头，再选一种改动：图样和输出会立即变化。", next: "下一个词元", before: "改动前的下一个词元", after: "改动后", kl: "输出的变化", cosine: "输出方向的变化（1 − 余弦）", nats: "纳特（KL 散度，对词元取平均）", each: "逐个词元的输出变化",
    },
    meanings: {
      title: "一词多义", about: "同一个词在每一层之后的向量。起初它在各句中几乎相同，周围的词再把它们逐渐拉开。", model: "模型", word: "词", sentences: "句子，每行一句", examplesTitle: "例子", plane: "词向量在差别最大的平面上的投影", planeTitle: "词向量的位置", planeNote: "逐层显示，投影到差别最大的平面", cosine: "向量之间的相似度", layer: "层", before: "0（第一层之前）", walk: "逐层播放", pause: "停止",
      readBy: (name) => `由 ${name} 阅读`, needs: { en: "这个例子需要认识英文单词的模型，而这里没有。请添加一个，再重新启动工作室：regard models add minilm，或 regard models add smollm2。", zh: "这个例子需要认识汉字的模型，而这里没有。请重新安装 regard 自带的 zh-en-transformer，或添加一个：regard models add smollm2。" },
      examples: [{ word: "mole", lang: "en", sentences: ["American shrew mole", "one mole of carbon dioxide", "take a biopsy of the mole"] }, { word: "tower", lang: "en", sentences: ["the Eiffel tower", "a miniature tower"] }, { word: "苹果", lang: "zh", sentences: ["我喜欢吃苹果", "她买了三个苹果", "苹果手机很贵"] }, { word: "打", lang: "zh", sentences: ["他打人了", "我给你打电话", "我们打车去吧"] }],
    },
  },
  steps: {
    title: "一步一步看注意力", lead: "任何数字、词和开关都可以改。指向一个单元格，就能看到它的算式。", sentence: "一个句子，词之间用空格隔开，最多十个词", words: "句子：选择正在看的词", features: ["名词", "形容词", "动词", "柔软", "蓝色"],
    score: "打分函数", scores: { dot: "点积", additive: "加性", bilinear: "双线性" }, scale: "÷ √d", mask: "掩码", masks: { none: "无", causal: "因果", window: "窗口 ±1" }, temperature: "温度", choice: "选择", choices: { softmax: "softmax", sparsemax: "sparsemax", entmax15: "1.5-entmax", argmax: "argmax", sample: "采样" }, drawAgain: "再抽一次", heads: "头数", head: "显示的头", headNames: ["名词寻找形容词", "动词寻找名词", "随机设定", "随机设定"], form: "形式", forms: { row: "行", column: "列" },
    stage: { embed: "嵌入与映射", project: "查询、键、值", score: "打分", choose: "掩码与选择", gather: "汇聚，再相加" },
    about: { embed: "每个数都可以改", project: "每个词在找什么、凭什么被找到、传出什么", dot: "每个键与每个查询有多匹配：q·k", additive: "每个键与每个查询有多匹配：vᵀ tanh(k + q)", bilinear: "每个键与每个查询有多匹配：kᵀ W q", choose: "后面的词看不见；每个查询的权重之和为 1", gather: "每个词取走它所看到的，加到自己身上" },
    down: "W_V（Value↓）", up: "W_O（Value↑）", raw: { dot: "Q·Kᵀ", additive: "vᵀ tanh(k + q)", bilinear: "Q·Wᵀ·Kᵀ" }, rawColumn: { dot: "Kᵀ·Q", additive: "vᵀ tanh(k + q)", bilinear: "Kᵀ·W·Q" }, keysDown: "键为行，查询为列", queriesDown: "查询为行，键为列", notScaled: "未缩放", maskTitle: "加掩码后", rowsSum: "每行之和为 1", columnsSum: "每列之和为 1", changeAll: "所有头的 ΔE", proof: "各步骤与 regard.attend 相差不超过", proofExact: "各步骤与 regard.attend 完全一致", hover: "指向一个单元格，或用 Tab 和方向键走到它：这里显示它的算式。",
    unscaled: "保持原值", hidden: "不允许看", visible: "允许看", largest: "本行最大", notLargest: (most) => `小于 ${most}`, drawn: "抽中，概率", notDrawn: "未抽中，概率",
    lookup: { title: "字典与软性查找", about: "字典只认与查询完全相等的键。注意力给每个键打分，再把值混合；温度越低，越接近字典。查询介于两个键之间时，字典无话可说，注意力仍能作答。", crisp: "精确查找", soft: "软性查找", asked: "查询", temperature: "温度", mix: (name) => `偏向${name}`, missing: "KeyError（没有这个键）", fruit: { apple: "苹果", banana: "香蕉", cherry: "樱桃", durian: "榴莲" } },
    width: { title: "为什么除以 √d", about: "宽度为 d 的随机查询和键。不做除法，打分随 d 变大，softmax 只选中一个键，本该用来学习的梯度随之消失。", variance: "打分的方差", largest: "最大权重（平均）", gradient: "传到打分处的梯度" },
    desk: { title: "同一张书桌，不同的问题", about: "桌上的东西不变，变的只是问题。没有问题时，最显眼的胜出。", features: ["显眼", "可读", "可喝", "可写"], things: ["报纸", "论文", "红色杯子", "笔记本", "书"], noQuery: "没有查询：最显眼的", read: "“我想读点什么”", write: "“我想写点什么”", yours: "你的查询" },
    quiz: {
      title: "想一想", pick: "请选择", notYet: "还不对，再看看上面的步骤。",
      questions: [
        { ask: "在 Bahdanau 的翻译模型里，查询、键、值和打分函数各是什么？", parts: [{ name: "q", options: ["解码器隐藏状态 sᵢ₋₁", "编码器隐藏状态 hⱼ", "上一个词 yᵢ₋₁"], right: 0 }, { name: "k", options: ["解码器隐藏状态 sᵢ₋₁", "编码器隐藏状态 hⱼ", "上下文向量 cᵢ"], right: 1 }, { name: "v", options: ["词 y", "编码器隐藏状态 hⱼ", "权重 αᵢⱼ"], right: 1 }, { name: "打分", options: ["q·k/√d", "vᵀ tanh(W hⱼ + U sᵢ₋₁)", "余弦"], right: 1 }], why: "eᵢⱼ = vᵀ tanh(W hⱼ + U sᵢ₋₁)，α = softmax(e)，cᵢ = Σ αᵢⱼ hⱼ：键和值是同一组隐藏状态。" },
        { ask: "掩码在 softmax 之前把打分设为 −∞。为什么不在之后把权重设为 0？", parts: [{ name: "", options: ["那样会更慢", "各行之和就不再是 1", "没有区别"], right: 1 }], why: "exp(−∞) = 0，softmax 把全部的 1 分给允许看的位置。" },
        { ask: "温度趋于 0 时，softmax 变成什么？", parts: [{ name: "", options: ["所有值的平均", "argmax：一个键独占", "sparsemax"], right: 1 }], why: "打分之差无限放大，最大者胜出。字典查找就是这个极限。" },
        { ask: "查询和键的各分量独立、方差为 1、宽度为 d。q·k 的方差是多少？", parts: [{ name: "", options: ["1", "√d", "d"], right: 2 }], why: "d 个方差为 1 的乘积之和，方差为 d。除以 √d 就回到 1。" },
        { ask: "当 K = V 时，键值注意力是什么？", parts: [{ name: "", options: ["普通的软性注意力 Σ αₙ xₙ", "最大汇聚", "卷积"], right: 0 }], why: "取 kₙ = vₙ = xₙ，Σ softmax(s(kₙ, q)) vₙ 就是输入在注意力分布下的期望。" },
      ],
    },
    symbols: {
      title: "术语与符号对照", about: "同一个东西在各书中的名字。本库用行的形式；用列的形式的书，是它的转置。", heads: ["中文", "English", "本库（行）", "列的形式", "Bahdanau 2015", "Vaswani 2017"],
      rows: [["查询", "query", "q，Q (L, d) 的一行", "q，Q 的一列", "sᵢ₋₁", "Q"], ["键", "key", "k，K (S, d) 的一行", "k，K 的一列", "hⱼ", "K"], ["值", "value", "v，V (S, dv) 的一行", "v，V 的一列", "hⱼ", "V"], ["打分函数", "score", "score(q, k)", "s(k, q)", "eᵢⱼ = a(sᵢ₋₁, hⱼ)", "QKᵀ/√dₖ"], ["注意力分布", "attention distribution", "α，每行之和为 1", "α，每列之和为 1", "αᵢⱼ", "softmax(QKᵀ/√dₖ)"], ["输出（上下文）", "output", "αV", "V softmax(KᵀQ/√d)", "cᵢ = Σⱼ αᵢⱼ hⱼ", "Attention(Q, K, V)"], ["掩码", "mask", "True 表示可以看；对角线以上为 −∞", "对角线以下为 −∞", "填充", "masked (opt.)"], ["多头", "multi-head", "concat(heads) W_O", "W_O [head_1; …]", "—", "MultiHead"], ["自注意力", "self-attention", "Q、K、V 来自同一个 E", "Q、K、V 来自同一个 X", "—", "self-attention"], ["对齐", "alignment", "翻译的 α", "α", "soft alignment", "encoder–decoder attention"], ["汇聚", "pooling", "Σ α v", "Σ α v", "expected annotation", "weighted sum"], ["软性 / 硬性注意力", "soft / hard attention", "Softmax / Argmax, Sample", "E[x_z] / x_z", "soft", "—"]],
    },
  },
  regression: {
    title: "注意力就是回归", lead: "预测值是目标的加权平均，近处的点权重更大：查询 x，键 xᵢ，值 yᵢ，权重 softmax(−½((x − xᵢ)w)²)。拖动宽度看看。", width: "宽度", useLearned: "采用学到的宽度", kernel: "核函数", kernels: { gaussian: "高斯", epanechnikov: "Epanechnikov", triangular: "三角", box: "矩形" }, noise: "噪声", count: "点数", builtIn: "回到课本的曲线", points: (n) => `${n} 个点`, dropped: (n) => `略去 ${n} 行没有数字的内容`, tooLarge: "最大 1 MB；更大的文件请用 `regard fit`", tooMany: (n) => `${n} 个点超过了页面的上限 2,000；\`regard fit\` 可处理数百万个点`, empty: "文件是空的", noColumns: "需要两列数字：x 和 y",
    chart: "数据与拟合", fit: (w) => `Nadaraya–Watson，w = ${w}`, average: "平均汇聚", learned: (w) => `学到的宽度，w = ${w}`, truth: "真实函数 2 sin x + x⁰·⁸", query: "查询", matrix: "权重", matrixNote: "查询为行，数据点为列；每行之和为 1", errors: "留一误差随宽度的变化", mse: "均方误差", loo: "留一误差", looLearned: "采用学到的宽度", looAverage: "平均汇聚", widthLearned: "学到的宽度", dataTitle: "数据", open: "打开 CSV", dropHere: "把 CSV 文件拖到这里：前两列数字为 x 和 y。数据不会离开本机。",
  },
  cost: {
    title: "开销有多大", lead: "精确计数，每个数都附公式和代入的数值。先看 GPT-3，也可以粘贴你自己的 config.json。", model: "模型", paste: "粘贴 config.json", countIt: "计算", context: "上下文长度", itsOwn: "模型自身", batch: "批大小", dtype: "数值类型", mode: "任务", modes: { infer: "推理", train: "训练" }, counting: "计数方式", countings: { textbook: "按课本", stored: "按存储" }, countingsTitle: { textbook: "只算权重，嵌入与解嵌入分开计", stored: "含偏置、归一化、位置，嵌入共享" },
    parameters: (name) => `${name} 的参数量`, byPart: "各部分的参数，按比例", columns: { part: "部分", count: "参数量", share: "占比", formula: "公式" }, pieces: "注意力的组成", work: "计算量", moved: "数据搬运", memory: "峰值内存", attention: { dense: "稠密注意力", streamed: "流式注意力（本库）" }, byContext: "内存随上下文长度的变化", growth: "缓存与激活", contextLength: "上下文长度（词元）", dense: "激活，稠密注意力", streamed: "激活，流式（本库）", cache: "键值缓存", flopsTitle: "计算量随上下文长度的变化", flopsGrowth: "一次前向的 FLOP", flops: "FLOP",
    machine: "这台机器", measure: "测量这台机器", measured: "实测", predicted: "预测", timeTitle: "时间随 N 的变化", bytesTitle: "内存随 N 的变化", noMemory: "这里无法测得峰值内存。", machineFacts: (name, rate, took, kernel) => `${name ? name + "：" : ""}最快 ${rate}；测量用时 ${took}；attend 选用的内核是 ${kernel}。`, recurrence: (n, once, turn, times) => `注意力为何能并行：同样的 ${n} 次“一行乘一个矩阵”，一起做用时 ${once}，像循环网络那样逐个做用时 ${turn}，是前者的 ${times} 倍。`,
    part: (name) => PARTS[name] || name, piece: (name) => PIECES[name] || name, curve: (name) => CURVES[name] || name, law: (name) => LAWS[name] || name,
    step: (title) => title.replace(/^decode of one token, ([\d,]+) in sight/, "生成一个词元，可见 $1 个").replace(/^prefill of ([\d,]+) tokens/, "读入 $1 个词元").replace(/^forward over ([\d,]+) tokens/, "前向 $1 个词元").replace(/^training step over ([\d,]+) tokens/, "训练一步，$1 个词元").replace(", batch ", "，批大小 ").replace(/, (fp|bf|int)/, "，$1"),
  },
};
