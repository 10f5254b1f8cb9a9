// The texts of the inspect page. Both tables have the same keys; a test compares them.

const SAMPLES = {
  play: [
    "ROMEO:\nBut, soft! what light through yonder window breaks?",
    "To be, or not to be: that is the question",
    "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!",
  ],
  zh: ["我爱中国。", "他昨天买了一本新书。", "我给你打电话，我们打车去吧。"],
  de: ["Was möchtest du heute Abend essen?", "Ich weiß nicht, wann er zurückkommt."],
  "": [
    "The animal didn't cross the street because it was too tired.",
    "The FBI is chasing a criminal on the run.",
    "a fluffy blue creature roamed the verdant forest",
  ],
};

// Four sentences of each sense, with the word at about the same place.
const WORDS = [
  {
    word: "mole",
    lang: "en",
    senses: [
      [
        "In the garden a blind mole dug a tunnel.",
        "Under our lawn a furry mole is digging.",
        "A hungry owl ate the mole in the field.",
        "Near the burrow a small mole ate worms.",
      ],
      [
        "The flask contains exactly one mole of water.",
        "The gas volume of one mole is constant.",
        "The reaction consumes about one mole of acid.",
        "The beaker holds half a mole of salt.",
      ],
      [
        "The doctor removed a dark mole from her back.",
        "The surgeon examined the brown mole on his arm.",
        "Her skin had a dark mole near the eye.",
        "My cheek has a brown mole that itches.",
      ],
    ],
  },
  {
    word: "tower",
    lang: "en",
    senses: [
      [
        "Tourists climbed the famous Eiffel tower in Paris.",
        "We saw the tall Eiffel tower at night.",
        "He photographed the huge radio tower on the hill.",
        "They built a great stone tower for the king.",
      ],
      [
        "On the desk a miniature tower collects dust.",
        "She bought a tiny plastic tower as a toy.",
        "The boy built a toy tower from blocks.",
        "The cake had a sugar tower on top.",
      ],
    ],
  },
  {
    word: "苹果",
    lang: "zh",
    senses: [
      ["我早上吃了一个苹果。", "她在市场买了红苹果。", "这棵树上结满了苹果。", "妈妈给我削了个苹果。"],
      ["我昨天买了一部苹果手机。", "他想换一台新的苹果电脑。", "这家店专门修理苹果手机。", "他一直都喜欢用苹果手机。"],
    ],
  },
  {
    word: "打",
    lang: "zh",
    senses: [
      ["他昨天生气地打了弟弟。", "不要在学校里打人。", "她从来不动手打孩子。", "那个坏人使劲打他。"],
      ["我晚上给妈妈打电话。", "请你明天给我打电话。", "他一到家就先打电话。", "有事可以随时打电话。"],
      ["我们从飞机场打车回家。", "今天下雨只好打车。", "太晚了我们就打车。", "上班迟到了才打车。"],
    ],
  },
];

// "3.1 temperature 0.3": layer and head (* for the whole layer), the change, its value.
function describe({ layer, head, what, value }, names) {
  const amount = what === "mute" ? "" : ` ${Number(Number(value).toPrecision(3))}`;
  return `${layer}.${head === null ? "*" : head} ${names[what]}${amount}`;
}

export const EN = {
  tab: "Inspect",
  title: "Inspect a model's attention",
  lead:
    "Paste a text to see what every head of every layer attends to, with labels for what it does, " +
    "and a proof that the weights are the model's own.",
  kinds: {
    lm: "language model",
    mlm: "masked language model",
    classify: "classifier",
    "transformer translator": "Transformer translator",
    "bahdanau translator": "recurrent translator",
  },
  model: "Model",
  text: "Text to inspect",
  inspect: "Inspect",
  open: "Open a file",
  keys: "Ctrl Enter",
  empty: "Type a text above.",
  limit: (n) => `this model reads at most ${n} tokens`,
  noLimit: "up to 100,000 tokens",
  cut: (read, whole, name) => `Only the first ${read} of ${whole} tokens are shown: ${name} accepts no longer input.`,
  examples: "Examples",
  samples: SAMPLES,
  none: "No model with attention is available. Pass a folder when starting the studio:",
  facts: (read, ms) => `${read} tokens read, ${ms} ms`,
  whatIf: {
    title: "What if …",
    at: (layer, head) => `layer ${layer}, head ${head} (chosen above)`,
    change: "Change",
    whats: { mute: "mute", temperature: "temperature", window: "window", forget: "hide the first tokens" },
    scope: "Scope",
    oneHead: "this head",
    wholeLayer: "the whole layer",
    apply: "Apply",
    active: "Active changes",
    undo: "Undo",
    undoAll: "Undo all",
    positions: (n) => `± ${n}`,
    tokens: (n) => `${n}`,
    describe: (change) => describe(change, { mute: "muted", temperature: "temperature", window: "window", forget: "first tokens hidden:" }),
    hint: "Choose a head above, then a change: the pattern and the output are recomputed.",
    next: "Next token",
    before: "Next token, before the change",
    after: "Next token, after the change",
    kl: "Change of the output:",
    cosine: "Change of the output's direction, 1 − cosine:",
    nats: "nats (KL divergence, mean over the tokens)",
    each: "change of the output, token by token",
  },
  meanings: {
    title: "One word, several meanings",
    about:
      "The word's vector after every layer, in each sentence. Any other context moves it, also where the word means the same. " +
      "So the vectors of one sense are the control: only if two senses are further apart than one sense is from itself " +
      "does the layer hold the meaning.",
    blankLine:
      "A blank line begins another sense. Give each sense two sentences or more, with the word at the same place: " +
      "only pairs whose positions differ by at most one token are compared.",
    within: "same sense",
    between: "different senses",
    controlTitle: "Mean cosine of pairs with the word at the same place",
    compared: (layer, within, withinPairs, between, betweenPairs) =>
      `${layer ? `After layer ${layer}` : "Before the first layer"}: mean cosine within a sense ${within} (${withinPairs} pairs), ` +
      `between senses ${between} (${betweenPairs} pairs).`,
    verdict: (apart, gap, chance) =>
      apart
        ? `Gap ${gap}; shuffled senses reach it in ${chance} % of cases. The senses are told apart here.`
        : `Gap ${gap}; shuffled senses reach it in ${chance} % of cases. This does not show that the senses are told apart.`,
    noControl: "No comparison of senses: begin another sense with a blank line. These cosines alone say nothing about meaning.",
    notComparable:
      "The senses cannot be compared: each needs two sentences or more, and some pairs must have the word at the same place. " +
      "These cosines alone say nothing about meaning.",
    model: "Model",
    word: "Word",
    sentences: "Sentences, one per line; a blank line begins another sense",
    examplesTitle: "Examples",
    examples: WORDS,
    plane: "The word's vectors in the plane that shows most of their difference",
    planeTitle: "Position of the word's vector",
    planeNote: "layer by layer, in the plane that shows most of the difference",
    cosine: "Cosine similarity of the vectors",
    layer: "Layer",
    before: "0 (before the first layer)",
    play: "Play layer by layer",
    pause: "Stop",
    readBy: (name) => `shown with ${name}`,
    needs: {
      en:
        "This example needs a model that knows English words, and none is available. Add one and restart the studio: " +
        "regard models add minilm, or regard models add smollm2.",
      zh:
        "This example needs a model that knows Chinese characters, and none is available. Reinstall zh-en-transformer " +
        "(it comes with regard), or add one: regard models add smollm2.",
    },
  },
  refusals: {
    unseen: "The attention of this model cannot be captured:",
    unknown_sight: "The result for this text is no longer kept. Inspect it again.",
    no_word: ({ name, word, sentence }) =>
      `${name} has no tokens for “${word}” in “${sentence}”. Choose a model that knows the word, or another sentence.`,
    few: "Enter a word and at least two sentences that contain it, one per line.",
  },
  refusalsWithMessage: ["unseen"],
};

export const ZH = {
  tab: "查看注意力",
  title: "查看模型的注意力",
  lead: "粘贴一段文本，即可看到每一层的每个头关注哪些词、起什么作用，并附有验证：" + "这些权重正是模型自己算出的。",
  kinds: {
    lm: "语言模型",
    mlm: "掩码语言模型",
    classify: "分类模型",
    "transformer translator": "Transformer 翻译模型",
    "bahdanau translator": "循环网络翻译模型",
  },
  model: "模型",
  text: "要查看的文本",
  inspect: "查看注意力",
  open: "打开文件",
  keys: "Ctrl Enter",
  empty: "请在上面输入一段文本。",
  limit: (n) => `这个模型最多读入 ${n} 个词元`,
  noLimit: "最多 100,000 个词元",
  cut: (read, whole, name) => `只显示前 ${read} 个词元（共 ${whole} 个）：${name} 的输入长度到此为止。`,
  examples: "例句",
  samples: SAMPLES,
  none: "这里没有带注意力的模型。请在启动工作室时指定文件夹：",
  facts: (read, ms) => `读入 ${read} 个词元，用时 ${ms} 毫秒`,
  whatIf: {
    title: "假如……",
    at: (layer, head) => `第 ${layer} 层第 ${head} 个头（上面选中的头）`,
    change: "改动",
    whats: { mute: "屏蔽", temperature: "温度", window: "窗口", forget: "遮住开头的词元" },
    scope: "范围",
    oneHead: "这个头",
    wholeLayer: "整层",
    apply: "应用",
    active: "当前改动",
    undo: "撤销",
    undoAll: "全部撤销",
    positions: (n) => `± ${n}`,
    tokens: (n) => `${n} 个`,
    describe: (change) => describe(change, { mute: "已屏蔽", temperature: "温度", window: "窗口", forget: "遮住开头词元" }),
    hint: "先在上面选一个头，再选一种改动：注意力图和输出会重新计算。",
    next: "下一个词元",
    before: "下一个词元（改动前）",
    after: "下一个词元（改动后）",
    kl: "输出的变化：",
    cosine: "输出方向的变化（1 − 余弦）：",
    nats: "奈特（KL 散度，对词元取平均）",
    each: "每个词元处输出的变化",
  },
  meanings: {
    title: "一词多义",
    about:
      "同一个词在各句中每一层之后的向量。任何上下文的变化都会移动它，意思相同时也一样。" +
      "因此用意思相同的句子作对照：只有不同词义之间的距离大于同一词义之内的距离，才说明这一层含有词义。",
    blankLine: "空行表示另一个词义。每个词义至少写两句，并让这个词处在相同的位置：" + "只比较位置相差不超过一个词元的句对。",
    within: "同一词义",
    between: "不同词义",
    controlTitle: "词处在相同位置的句对的平均余弦",
    compared: (layer, within, withinPairs, between, betweenPairs) =>
      `${layer ? `第 ${layer} 层之后` : "第一层之前"}：同一词义内的平均余弦为 ` +
      `${within}（${withinPairs} 对），不同词义间为 ${between}（${betweenPairs} 对）。`,
    verdict: (apart, gap, chance) =>
      apart
        ? `差距为 ${gap}；把词义随机打乱后，有 ${chance} % 的情况达到这一差距。这一层能区分词义。`
        : `差距为 ${gap}；把词义随机打乱后，有 ${chance} % 的情况达到这一差距。这不能说明这一层能区分词义。`,
    noControl: "没有比较词义：请用空行分开不同的词义。仅凭这些余弦不能说明词义。",
    notComparable: "无法比较词义：每个词义至少需要两句，并且要有词处在相同位置的句对。仅凭这些余弦不能说明词义。",
    model: "模型",
    word: "词",
    sentences: "句子，每行一句；空行表示另一个词义",
    examplesTitle: "例子",
    examples: WORDS,
    plane: "词向量在差别最大的平面上的投影",
    planeTitle: "词向量的位置",
    planeNote: "逐层显示，投影到差别最大的平面",
    cosine: "向量的余弦相似度",
    layer: "层",
    before: "0（第一层之前）",
    play: "逐层播放",
    pause: "停止",
    readBy: (name) => `使用 ${name}`,
    needs: {
      en:
        "这个例子需要认识英文单词的模型，而这里没有。请添加一个并重新启动工作室：" +
        "regard models add minilm，或 regard models add smollm2。",
      zh:
        "这个例子需要认识汉字的模型，而这里没有。请重新安装 regard 自带的 " + "zh-en-transformer，或添加一个：regard models add smollm2。",
    },
  },
  refusals: {
    unseen: "无法获取这个模型的注意力：",
    unknown_sight: "这段文本的结果已不再保留，请重新查看。",
    no_word: ({ name, word, sentence }) =>
      `在“${sentence}”中，${name} 没有对应“${word}”的词元。请换一个认识这个词的模型，` + `或换一个句子。`,
    few: "请输入一个词，以及至少两个包含它的句子，每行一句。",
  },
  refusalsWithMessage: ["unseen"],
};
