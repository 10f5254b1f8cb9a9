// The texts of the translate page. Both tables have the same keys; a test compares them.

const SAMPLES = {
  zh: ["我爱中国。", "你今天晚上想吃什么？", "他昨天买了一本新书。", "我不知道他什么时候回来。"],
  de: [
    "Was möchtest du heute Abend essen?",
    "Ich weiß nicht, wann er zurückkommt.",
    "Sie liest jeden Abend ein Buch.",
    "Wo ist der Bahnhof?",
  ],
  "": ["a b c d", "d c b a a", "a c e g b"],
};

export const EN = {
  tab: "Translate",
  title: "Translate and see the alignment",
  lead:
    "For each target word the model attends to the source words. " +
    "Hover over a word on either side, or move with Tab, to see its partners.",
  source: "Text to translate",
  placeholder: "Type a sentence",
  from: "From",
  languages: { zh: "Chinese", de: "German", en: "English", "": "other" },
  models: "Models",
  examples: "Examples",
  samples: SAMPLES,
  roles: {
    transformer: "Transformer, with attention",
    bahdanau: "recurrent, with attention",
    fixed: "recurrent, one fixed vector, no attention",
  },
  attention: "Attention",
  soft: "soft",
  hard: "hard",
  softTitle: "each target word mixes all source words by their weights",
  hardTitle: "each target word reads one source position only: the one with the largest weight (the limit of temperature 0)",
  withSoft: (text) => `with soft attention: ${text}`,
  candidates: "Other candidate translations",
  logProb: "log-probability",
  ranked: "Best first, by log-probability divided by a length penalty, so that long sentences are not at a disadvantage.",
  empty: "Type a sentence above.",
  averaged: (n) => `The weights shown are the mean of ${n} heads.`,
  averagedHard: (n) => `Each of the ${n} heads reads one source position; the weights shown are the mean of the ${n}.`,
  noAlignment: "This model encodes the whole sentence in one fixed vector: there is no alignment to see.",
  parts: (n) => `Translated in ${n} parts:`,
  together: "Side by side",
  fixedWhy: "Without attention the whole sentence is compressed into one vector, and long sentences lose content.",
  byLength: "Score by sentence length",
  testSet: "Test set",
  testSets: {
    "held out": "held-out sentences",
    "3AM, captions": "3AM, captions",
    "NTREX, news": "NTREX, news",
    "Multi30k, test_2016_flickr": "Multi30k, captions",
  },
  fromCards: "From the models' cards: test sentences grouped by length, each point at the middle of its group.",
  lengthRow: (least, most, n) => `${least} to ${most} tokens, ${n} sentences`,
  sourceLength: "source length (tokens)",
  sentences: "sentences",
  unknown: (characters) => `Characters unknown to the model: ${characters}`,
  mostlyUnknown: (name, language) =>
    `Most characters of this text are unknown to ${name}${language ? ` (it translates from ${language})` : ""}: ` +
    "the translation will be meaningless.",
  foreign: (name, language, detected, sure) =>
    `${name} translates from ${language}, and this text ${sure ? "seems to be" : "may be"} ${detected || "in another language"}: ` +
    `the text below is then not a translation of it.`,
  none: "No translator is available. Train one, or pass its folder when starting the studio:",
};

export const ZH = {
  tab: "翻译",
  title: "翻译与词对齐",
  lead: "模型每生成一个目标词，都会对源句中的各个词分配注意力。" + "把鼠标移到任意一侧的词上（或按 Tab 键），即可看到与它对齐的词。",
  source: "要翻译的文本",
  placeholder: "输入一个句子",
  from: "源语言",
  languages: { zh: "中文", de: "德语", en: "英语", "": "其他" },
  models: "模型",
  examples: "例句",
  samples: SAMPLES,
  roles: { transformer: "Transformer，有注意力", bahdanau: "循环网络，有注意力", fixed: "循环网络，单个固定向量，无注意力" },
  attention: "注意力",
  soft: "软性",
  hard: "硬性",
  softTitle: "每个目标词按权重混合所有源词",
  hardTitle: "每个目标词只读取一个源位置，即权重最大的那个（温度趋于 0 的极限）",
  withSoft: (text) => `使用软性注意力时：${text}`,
  candidates: "其他候选译文",
  logProb: "对数概率",
  ranked: "按得分从高到低排列；得分是对数概率除以长度惩罚，以免长句仅因为长而处于不利地位。",
  empty: "请在上面输入一个句子。",
  averaged: (n) => `图中的权重是 ${n} 个头的平均。`,
  averagedHard: (n) => `${n} 个头各自只读取一个源位置；图中的权重是这 ${n} 个头的平均。`,
  noAlignment: "这个模型把整个句子编码成一个固定向量，因此没有对齐可看。",
  parts: (n) => `分成 ${n} 段翻译：`,
  together: "并排比较",
  fixedWhy: "没有注意力时，整个句子都要压缩进一个向量，句子越长，丢失的内容越多。",
  byLength: "得分随句长的变化",
  testSet: "测试集",
  testSets: {
    "held out": "留出的句子",
    "3AM, captions": "3AM 图片描述",
    "NTREX, news": "NTREX 新闻",
    "Multi30k, test_2016_flickr": "Multi30k 图片描述",
  },
  fromCards: "数据来自模型卡片：测试句按长度分组，每个点位于本组的中间。",
  lengthRow: (least, most, n) => `${least} 到 ${most} 个词元，${n} 句`,
  sourceLength: "源句长度（词元）",
  sentences: "句数",
  unknown: (characters) => `模型词表中没有的字符：${characters}`,
  mostlyUnknown: (name, language) =>
    `这段文本的大部分字符不在 ${name} 的词表中${language ? `（它的源语言是${language}）` : ""}，译文没有意义。`,
  foreign: (name, language, detected, sure) =>
    `${name} 的源语言是${language}，而这段文本${sure ? "看来" : "可能"}是${detected || "另一种语言"}；` +
    `那样的话，下面的文字不是它的译文。`,
  none: "这里没有翻译模型。请先训练一个，或在启动工作室时指定它的文件夹：",
};
