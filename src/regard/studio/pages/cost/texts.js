// The texts of the cost page. Both tables have the same keys; a test compares them.

// What the library calls them, in Chinese.
const PARTS = { "token embedding": "词嵌入", "position embedding": "位置嵌入", "token types": "片段嵌入", "embedding projection": "嵌入投影", "relative positions": "相对位置", query: "查询", key: "键", value: "值", output: "输出", mlp: "前馈层", norms: "归一化", unembedding: "解嵌入", experts: "专家", "shared experts": "共享专家", router: "路由", latent: "潜变量", pooler: "汇聚层", sinks: "汇点", "cross query": "交叉查询", "cross key": "交叉键", "cross value": "交叉值", "cross output": "交叉输出", scores: "打分", "scores, again": "重算打分", "weighted sum": "加权和", weights: "权重", "key-value cache": "键值缓存", activations: "激活", "activations kept for the backward pass": "为反向传播保留的激活", "activations at the peak beside it": "峰值处的其他激活", gradients: "梯度", "adamw states": "AdamW 状态", "bf16 copy of the weights": "权重的 bf16 副本" };
const PIECES = { "one query matrix": "一个查询矩阵", "one key matrix": "一个键矩阵", "one value map, whole": "一个完整的值映射", "one value map, factored (Value↓ + Value↑)": "分解后的值映射（Value↓ + Value↑）", "one head": "一个头", "one layer's attention": "一层的注意力" };
const CURVES = { projections: "投影", "dense attention": "稠密注意力", "our attention": "本库的注意力", "our attention, streamed": "本库的流式注意力" };
const LAWS = { projections: "投影", "scores and values": "打分与加权和", "they are equal at N": "两者相等时的 N", "naive memory, numbers": "朴素做法的存储（个数）", "ours, numbers": "本库的存储（个数）" };

export const EN = {
  tab: "Cost",
  title: "What it costs", lead: "Exact counts, each with its formula and the numbers put in. Begin with GPT-3, or paste the config.json of your own.", model: "Model", paste: "Paste a config.json", countIt: "Count it", context: "Context", itsOwn: "its own", batch: "Batch", dtype: "Number format", mode: "Mode", modes: { infer: "inference", train: "training" }, counting: "Count", countings: { textbook: "as textbooks do", stored: "as stored" }, countingsTitle: { textbook: "weights only, embedding and unembedding apart", stored: "with biases, norms, positions and tied embeddings" },
  parameters: (name) => `parameters of ${name}`, byPart: "Parameters by part, to scale", columns: { part: "part", count: "parameters", share: "share", formula: "formula" }, pieces: "The pieces of attention", work: "Arithmetic", moved: "moved", memory: "Memory at the peak", attention: { dense: "dense attention", streamed: "streamed attention (ours)" }, byContext: "Memory by context length", growth: "Cache and activations", contextLength: "context length (tokens)", dense: "activations, dense attention", streamed: "activations, streamed (ours)", cache: "key-value cache", flopsTitle: "Arithmetic by context length", flopsGrowth: "FLOPs of one pass", flops: "FLOPs",
  machine: "This machine", measure: "Measure this machine", measured: "measured", predicted: "predicted", timeTitle: "Time over N", bytesTitle: "Memory over N", noMemory: "Peak memory could not be measured here.", machineFacts: (name, rate, took, kernel) => `${name ? name + ": " : ""}${rate} at its best; measured in ${took}; attend chose the ${kernel} kernel.`, recurrence: (n, once, turn, times) => `Why attention runs in parallel: the same ${n} products of a row and a matrix take ${once} at once and ${turn} one after another, as a recurrence must: ${times} times as long.`,
  part: (name) => name, piece: (name) => name, step: (title) => title, curve: (name) => name, law: (name) => name,
  refusals: {
    json: "This is not JSON. Paste the whole config.json.",
  },
};

export const ZH = {
  tab: "开销",
  title: "开销有多大", lead: "精确计数，每个数都附公式和代入的数值。先看 GPT-3，也可以粘贴你自己的 config.json。", model: "模型", paste: "粘贴 config.json", countIt: "计算", context: "上下文长度", itsOwn: "模型自身", batch: "批大小", dtype: "数值类型", mode: "任务", modes: { infer: "推理", train: "训练" }, counting: "计数方式", countings: { textbook: "按课本", stored: "按存储" }, countingsTitle: { textbook: "只算权重，嵌入与解嵌入分开计", stored: "含偏置、归一化、位置，嵌入共享" },
  parameters: (name) => `${name} 的参数量`, byPart: "各部分的参数，按比例", columns: { part: "部分", count: "参数量", share: "占比", formula: "公式" }, pieces: "注意力的组成", work: "计算量", moved: "数据搬运", memory: "峰值内存", attention: { dense: "稠密注意力", streamed: "流式注意力（本库）" }, byContext: "内存随上下文长度的变化", growth: "缓存与激活", contextLength: "上下文长度（词元）", dense: "激活，稠密注意力", streamed: "激活，流式（本库）", cache: "键值缓存", flopsTitle: "计算量随上下文长度的变化", flopsGrowth: "一次前向的 FLOP", flops: "FLOP",
  machine: "这台机器", measure: "测量这台机器", measured: "实测", predicted: "预测", timeTitle: "时间随 N 的变化", bytesTitle: "内存随 N 的变化", noMemory: "这里无法测得峰值内存。", machineFacts: (name, rate, took, kernel) => `${name ? name + "：" : ""}最快 ${rate}；测量用时 ${took}；attend 选用的内核是 ${kernel}。`, recurrence: (n, once, turn, times) => `注意力为何能并行：同样的 ${n} 次“一行乘一个矩阵”，一起做用时 ${once}，像循环网络那样逐个做用时 ${turn}，是前者的 ${times} 倍。`,
  part: (name) => PARTS[name] || name, piece: (name) => PIECES[name] || name, curve: (name) => CURVES[name] || name, law: (name) => LAWS[name] || name,
  step: (title) => title.replace(/^decode of one token, ([\d,]+) in sight/, "生成一个词元，可见 $1 个").replace(/^prefill of ([\d,]+) tokens/, "读入 $1 个词元").replace(/^forward over ([\d,]+) tokens/, "前向 $1 个词元").replace(/^training step over ([\d,]+) tokens/, "训练一步，$1 个词元").replace(", batch ", "，批大小 ").replace(/, (fp|bf|int)/, "，$1"),
  refusals: {
    json: "这不是 JSON。请粘贴完整的 config.json。",
  },
};
