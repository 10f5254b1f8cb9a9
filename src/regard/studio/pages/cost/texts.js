// The texts of the cost page. Both tables have the same keys; a test compares them.

// The names the library gives, in Chinese.
const PARTS = {
  "token embedding": "词嵌入",
  "position embedding": "位置嵌入",
  "token types": "片段嵌入",
  "embedding projection": "嵌入投影",
  "relative positions": "相对位置",
  query: "查询",
  key: "键",
  value: "值",
  output: "输出",
  mlp: "前馈层",
  norms: "归一化",
  unembedding: "解嵌入",
  experts: "专家",
  "shared experts": "共享专家",
  router: "路由",
  latent: "潜变量",
  pooler: "汇聚层",
  sinks: "注意力汇聚点（sink）",
  "cross query": "交叉查询",
  "cross key": "交叉键",
  "cross value": "交叉值",
  "cross output": "交叉输出",
  scores: "打分",
  "scores, recomputed": "重算打分",
  "weighted sum": "加权和",
  weights: "权重",
  "key-value cache": "键值缓存",
  activations: "激活",
  "activations kept for the backward pass": "为反向传播保留的激活",
  "activations at the peak beside it": "峰值处的其他激活",
  gradients: "梯度",
  "adamw states": "AdamW 状态",
};
const PIECES = {
  "one query matrix": "一个查询矩阵",
  "one key matrix": "一个键矩阵",
  "one value map, whole": "一个完整的值映射",
  "one value map, factored (Value↓ + Value↑)": "分解后的值映射（Value↓ + Value↑）",
  "one head": "一个头",
  "one layer's attention": "一层的注意力",
};
const CURVES = {
  projections: "投影",
  "dense attention": "稠密注意力",
  "regard.attend": "本库的注意力",
  "regard.attend, streamed": "本库的流式注意力",
};
const LAWS = {
  projections: "投影",
  "scores and values": "打分与加权和",
  "crossover at N": "两者相等时的 N",
  "dense attention, elements stored": "稠密注意力存储的元素个数",
  "streamed attention, elements stored": "流式注意力存储的元素个数",
};
// The symbols of the formulas, in Chinese; those written as in a formula (d_model, N) stay.
const SYMBOLS = {
  layers: "层数",
  full_layers: "全注意力层数",
  encoder_layers: "编码器层数",
  shared_layers: "共享的层数",
  dense_layers: "稠密层数",
  expert_layers: "专家层数",
  heads: "头数",
  kv_heads: "键值头数",
  kv_rank: "键值秩",
  query_rank: "查询秩",
  vocabulary: "词表大小",
  source_vocabulary: "源词表大小",
  positions: "位置数",
  token_types: "片段数",
  batch: "批大小",
  bytes: "字节",
  window: "窗口",
  before: "已缓存",
  growing: "未满窗口的行",
  experts: "专家数",
  active_experts: "激活的专家数",
  source: "源长度",
  tile: "块",
  block: "块",
  blocks: "块数",
  buckets: "桶数",
  embeddings: "嵌入",
  attention: "注意力",
  mlp: "前馈层",
  norms: "归一化",
  head: "输出层",
  parameters: "参数量",
};
const chineseFormula = (formula) =>
  formula.replace(/layers_of_(\d+)/g, "窗口_{$1}的层数").replace(/[A-Za-z_]+/g, (name) => SYMBOLS[name] || name);
const chinesePart = (name) => PARTS[name] || name.replace(/^(\w+) copy of the weights$/, "权重的 $1 副本");
const chineseStep = (title) =>
  title
    .replace(/^decode of one token, ([\d,]+) visible/, "生成一个词元，可见 $1 个")
    .replace(/^prefill of ([\d,]+) tokens/, "预填充 $1 个词元")
    .replace(/^forward over ([\d,]+) tokens/, "前向计算 $1 个词元")
    .replace(/^training step over ([\d,]+) tokens/, "训练一步，$1 个词元")
    .replace(", batch ", "，批大小 ")
    .replace(/, (fp|bf|int)/, "，$1");

export const EN = {
  tab: "Cost",
  title: "What a model costs",
  lead:
    "Exact counts of parameters, operations and memory, each with its formula and the numbers in it. Start with " +
    "GPT-3, or paste the config.json of your own model.",
  model: "Model",
  paste: "Paste a config.json",
  countIt: "Count it",
  context: "Context",
  itsOwn: "default",
  batch: "Batch",
  dtype: "Number format",
  mode: "Mode",
  modes: { infer: "inference", train: "training" },
  counting: "Count",
  countings: { textbook: "as textbooks do", stored: "as stored" },
  countingsTitle: {
    textbook: "weights only, embedding and unembedding counted separately",
    stored: "with biases, norms, positions and tied embeddings",
  },
  parameters: (name) => `parameters of ${name}`,
  byPart: "Parameters by part, to scale",
  columns: { part: "part", count: "parameters", share: "share", formula: "formula" },
  pieces: "Parameters of attention",
  work: "Operations",
  moved: "of memory traffic",
  memory: "Peak memory",
  attention: { dense: "dense attention", streamed: "streamed attention (regard)" },
  byContext: "Memory by context length",
  growth: "Cache and activations",
  contextLength: "context length (tokens)",
  dense: "activations, dense attention",
  streamed: "activations, streamed (regard)",
  cache: "key-value cache",
  flopsTitle: "Operations by context length",
  flopsGrowth: "FLOPs of one pass",
  flops: "FLOPs",
  bytes: "bytes",
  machine: "This machine",
  measure: "Measure this machine",
  measureAgain: "Measure again",
  measureAbout:
    "Times attention at several lengths on this machine: about 30 s, on all of torch's threads. " +
    "Other programs that run meanwhile make it slower.",
  measured: "measured",
  predicted: "predicted",
  timeTitle: "Time over N",
  bytesTitle: "Memory over N",
  noMemory: "Peak memory could not be measured here.",
  machineFacts: ({ name, rate, took, kernel, threads, load }) =>
    `${name ? name + ": " : ""}peak rate ${rate} on ${threads} thread${threads === 1 ? "" : "s"}; measured in ${took}` +
    `${load ? ` with a load of ${load} before it began (0: an idle machine)` : ""}; attend selected the ${kernel} kernel.`,
  recurrence: (n, once, turns, times) =>
    `Why attention runs in parallel: the same ${n} vector–matrix products take ${once} at once and ${turns} one ` +
    `after another, as a recurrent network must: ${times} times as long.`,
  formula: (formula) => formula.replace(/layers_of_(\d+)/g, "layers_{window $1}"),
  part: (name) => name,
  piece: (name) => name,
  step: (title) => title,
  curve: (name) => name,
  law: (name) => name,
  refusals: {
    json: "This is not JSON. Paste the whole config.json.",
  },
};

export const ZH = {
  tab: "开销",
  title: "模型的开销",
  lead: "参数、计算量和内存的精确计数，每个数都附公式和代入的数值。先看 GPT-3，也可以粘贴你自己的 config.json。",
  model: "模型",
  paste: "粘贴 config.json",
  countIt: "计算",
  context: "上下文长度",
  itsOwn: "默认",
  batch: "批大小",
  dtype: "数值类型",
  mode: "模式",
  modes: { infer: "推理", train: "训练" },
  counting: "计数方式",
  countings: { textbook: "按教科书", stored: "按存储" },
  countingsTitle: { textbook: "只算权重，嵌入与解嵌入分开计", stored: "含偏置、归一化、位置，嵌入共享" },
  parameters: (name) => `${name} 的参数量`,
  byPart: "各部分的参数，按比例",
  columns: { part: "部分", count: "参数量", share: "占比", formula: "公式" },
  pieces: "注意力的参数",
  work: "计算量",
  moved: "访存量",
  memory: "峰值内存",
  attention: { dense: "稠密注意力", streamed: "流式注意力（本库）" },
  byContext: "内存随上下文长度的变化",
  growth: "缓存与激活",
  contextLength: "上下文长度（词元）",
  dense: "激活，稠密注意力",
  streamed: "激活，流式（本库）",
  cache: "键值缓存",
  flopsTitle: "计算量随上下文长度的变化",
  flopsGrowth: "一次前向计算的 FLOP",
  flops: "FLOP",
  bytes: "字节",
  machine: "这台机器",
  measure: "测量这台机器",
  measureAgain: "再测一次",
  measureAbout: "在这台机器上测量几种长度下注意力所用的时间：大约 30 秒，使用 torch 的全部线程。同时运行的其他程序会使结果变慢。",
  measured: "实测",
  predicted: "预测",
  timeTitle: "时间随 N 的变化",
  bytesTitle: "内存随 N 的变化",
  noMemory: "这里无法测得峰值内存。",
  machineFacts: ({ name, rate, took, kernel, threads, load }) =>
    `${name ? name + "：" : ""}峰值速度 ${rate}，${threads} 个线程；测量用时 ${took}` +
    `${load ? `，开始前的系统负载为 ${load}（空闲时为 0）` : ""}；attend 选用的内核是 ${kernel}。`,
  recurrence: (n, once, turns, times) =>
    `注意力为何能并行：同样 ${n} 次向量与矩阵的乘法，一次完成用时 ${once}，` +
    `像循环网络那样依次进行用时 ${turns}，是前者的 ${times} 倍。`,
  formula: chineseFormula,
  part: chinesePart,
  piece: (name) => PIECES[name] || name,
  step: (title) => chineseStep(title),
  curve: (name) => CURVES[name] || name,
  law: (name) => LAWS[name] || name,
  refusals: {
    json: "这不是 JSON。请粘贴完整的 config.json。",
  },
};
