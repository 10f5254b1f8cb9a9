// The texts of the write page. Both tables have the same keys; a test compares them.

const SAMPLES = ["I don't know what", "She has been to", "A man is riding a", "ROMEO:"];

export const EN = {
  tab: "Write",
  title: "Where the next token comes from",
  lead:
    "A language model reads a prompt and gives every possible next token a probability. See how the prediction forms layer by " +
    "layer, sample a token, and find out which heads made it likely.",
  none: "No language model is available. Train one, or pass its folder when starting the studio:",
  model: "Model",
  prompt: "Prompt",
  examples: "Examples",
  samples: SAMPLES,
  one: "Write one token",
  on: "Continue",
  stop: "Stop",
  drawing: "How the next token is sampled",
  temperature: "Temperature",
  topK: "Top-k",
  topP: "Top-p",
  all: "all",
  empty: "Type the beginning of a text above.",
  tokens: (n) => `${n} tokens; “·” is the space before a word.`,
  tokensLabel: "The prompt as tokens",
  cut: (read, whole) => `The model reads only the last ${read} of ${whole} tokens.`,
  ended: "The model ended the text here.",
  next: "The next token",
  nextHint: "The probability of sampling each token, after temperature, top-k and top-p.",
  leftOut: "excluded",
  why: "why?",
  whyToken: (token) => `Why ${token}?`,
  stream: "The residual stream, layer by layer",
  streamAbout:
    "Each column is a prefix, each row a layer, from the embedding at the bottom to the last layer on top. A cell " +
    "shows what would be predicted if the model ended there; the bluer, the more certain. All of it comes from one " +
    "forward pass.",
  layerName: (layer) => (layer ? `after layer ${layer - 1}` : "embedding"),
  read: "token read",
  cell: (layer, token, best, p) => `${layer ? `after layer ${layer - 1}` : "embedding"}, up to ${token}: ${best} ${p}`,
  after: (layer, prefix) => `${layer}, after “… ${prefix}”`,
  block: "Lengths of the vectors here",
  lengths: {
    before: "residual stream before the layer",
    attention: "added by attention",
    mlp: "added by the MLP",
    stream: "residual stream here",
  },
  whyTitle: "Which parts make a token likely?",
  whyAbout:
    "A logit is a sum of contributions: of the embedding, of every head and of every MLP, each after the final norm and " +
    "projected onto the token's row of the unembedding. Mute a head to see the probabilities change.",
  whyOf: (token) => `The logit of ${token}`,
  kinds: {
    embedding: () => "embedding",
    head: (layer, head) => `layer ${layer} · head ${head}`,
    "attention bias": (layer) => `layer ${layer} · bias of attention`,
    mlp: (layer) => `layer ${layer} · MLP`,
    "norm bias": () => "bias of the final norm",
  },
  others: (n) => `the ${n} other parts together`,
  sumOf: (n) => `sum of all ${n} parts`,
  logit: "the model's logit",
  equal: "equal within",
  unequal: "not equal: they differ by",
  mute: "mute",
  unmute: "unmute",
  muted: "muted",
  muteHead: (layer, head) => `Mute layer ${layer}, head ${head}`,
  refusals: { not_writing: ({ name }) => `${name} is not a language model that can be shown here.` },
};

export const ZH = {
  tab: "续写",
  title: "下一个词元从何而来",
  lead:
    "语言模型读入一段开头，给每个可能的下一个词元一个概率。" +
    "在这里可以逐层看到预测如何形成，采样一个词元，" +
    "并查看是哪些头提高了它的概率。",
  none: "这里没有语言模型。请先训练一个，或在启动工作室时指定它的文件夹：",
  model: "模型",
  prompt: "开头",
  examples: "例子",
  samples: SAMPLES,
  one: "生成一个词元",
  on: "连续生成",
  stop: "停止",
  drawing: "下一个词元的采样方式",
  temperature: "温度",
  topK: "Top-k",
  topP: "Top-p",
  all: "全部",
  empty: "请在上面输入一段文字的开头。",
  tokens: (n) => `${n} 个词元；“·”表示词前的空格。`,
  tokensLabel: "切分成词元的开头",
  cut: (read, whole) => `共 ${whole} 个词元，模型只读入最后 ${read} 个。`,
  ended: "模型在这里结束了文本。",
  next: "下一个词元",
  nextHint: "经过温度、top-k 和 top-p 之后，每个词元被采样到的概率。",
  leftOut: "已排除",
  why: "为什么？",
  whyToken: (token) => `为什么是 ${token}？`,
  stream: "逐层看残差流",
  streamAbout:
    "每一列是一个前缀，每一行是一层，最下面是嵌入，最上面是最后一层。" +
    "格子里是模型若到此为止会预测的词元；颜色越蓝，把握越大。" +
    "所有结果来自一次前向计算。",
  layerName: (layer) => (layer ? `第 ${layer - 1} 层之后` : "嵌入"),
  read: "读入的词元",
  cell: (layer, token, best, p) => `${layer ? `第 ${layer - 1} 层之后` : "嵌入"}，读到 ${token}：${best} ${p}`,
  after: (layer, prefix) => `${layer}，读完“……${prefix}”`,
  block: "此处各向量的长度",
  lengths: { before: "这一层之前的残差流", attention: "注意力加入的", mlp: "前馈层加入的", stream: "此处的残差流" },
  whyTitle: "是哪些部分提高了一个词元的概率？",
  whyAbout:
    "logit 是各部分贡献之和：嵌入、每个头、每个前馈层的贡献，各自经过最后的归一化，" +
    "再投影到这个词元在解嵌入矩阵中对应的行。屏蔽一个头，即可看到概率如何变化。",
  whyOf: (token) => `${token} 的 logit`,
  kinds: {
    embedding: () => "嵌入",
    head: (layer, head) => `第 ${layer} 层 · 头 ${head}`,
    "attention bias": (layer) => `第 ${layer} 层 · 注意力的偏置`,
    mlp: (layer) => `第 ${layer} 层 · 前馈层`,
    "norm bias": () => "最后归一化的偏置",
  },
  others: (n) => `其余 ${n} 个部分之和`,
  sumOf: (n) => `全部 ${n} 个部分之和`,
  logit: "模型的 logit",
  equal: "相等，误差不超过",
  unequal: "不相等，相差",
  mute: "屏蔽",
  unmute: "恢复",
  muted: "已屏蔽",
  muteHead: (layer, head) => `屏蔽第 ${layer} 层第 ${head} 个头`,
  refusals: { not_writing: ({ name }) => `${name} 不是可以在这里展示的语言模型。` },
};
