// The texts of the look page. Both tables have the same keys; a test compares them.

export const EN = {
  tab: "Look",
  title: "Look inside a model", kinds: { lm: "language model", classify: "classifier", "transformer translator": "Transformer translator", "bahdanau translator": "recurrent translator" }, lead: "Paste a text: every head of every layer, what it looks at, what it does, and the proof that these are the model's own numbers.", model: "Model", text: "Text to look at", look: "Look", open: "Open a file", keys: "Ctrl Enter · up to 100,000 tokens", examples: "Examples", none: "No model that attends is here. Name a folder when the studio starts:",
  facts: (read, whole, ms) => `${read} tokens read${whole ? ` of ${whole}: as many as the model can` : ""}, ${ms} ms`,
  samples: { play: ["ROMEO:\nBut, soft! what light through yonder window breaks?", "To be, or not to be: that is the question", "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!"], zh: ["我爱中国。", "他昨天买了一本新书。", "我给你打电话，我们打车去吧。"], de: ["Was möchtest du heute Abend essen?", "Ich weiß nicht, wann er zurückkommt."], "": ["The animal didn't cross the street because it was too tired.", "The FBI is chasing a criminal on the run.", "a fluffy blue creature roamed the verdant forest"] },
  whatIf: {
    title: "What if …", at: (layer, head) => `layer ${layer}, head ${head}: the one chosen above`, do: "Change", whats: { mute: "mute", temperature: "temperature", window: "window", forget: "forget the first" }, scope: "Where", oneHead: "this head", wholeLayer: "the whole layer", apply: "Change it", active: "Changed", remove: "Take back", clear: "Take all back", positions: (n) => `± ${n}`, tokens: (n) => `${n}`,
    told: (c) => `${c.layer}.${c.head === null ? "*" : c.head} ${{ mute: "muted", temperature: "temperature", window: "window", forget: "without the first" }[c.what]}${c.what === "mute" ? "" : " " + Number(Number(c.value).toPrecision(3))}`, hint: "Choose a head above, then a change: the pattern and the output follow at once.", next: "Next token", before: "Next token before", after: "and after", kl: "The output moves by", cosine: "The output turns by 1 − cosine", nats: "nats (KL, mean over the tokens)", each: "how far the output moves, token by token",
  },
  meanings: {
    title: "One word, several meanings", about: "The word's vector after every layer. It begins nearly the same in every sentence; what stands around it moves it apart.", model: "Model", word: "Word", sentences: "Sentences, one a line", examplesTitle: "Examples", plane: "The word's vectors in the plane that shows most of their difference", planeTitle: "Where the word stands", planeNote: "layer by layer, in the plane that shows most of the difference", cosine: "How alike the vectors are", layer: "Layer", before: "0, before any", walk: "Walk through the layers", pause: "Stop",
    readBy: (name) => `read by ${name}`, needs: { en: "This example needs a model that knows English words, and none is here. Add one and start the studio again: regard models add minilm, or regard models add smollm2.", zh: "This example needs a model that knows Chinese characters, and none is here. Install zh-en-transformer again (it comes with regard), or add one: regard models add smollm2." },
    examples: [{ word: "mole", lang: "en", sentences: ["American shrew mole", "one mole of carbon dioxide", "take a biopsy of the mole"] }, { word: "tower", lang: "en", sentences: ["the Eiffel tower", "a miniature tower"] }, { word: "苹果", lang: "zh", sentences: ["我喜欢吃苹果", "她买了三个苹果", "苹果手机很贵"] }, { word: "打", lang: "zh", sentences: ["他打人了", "我给你打电话", "我们打车去吧"] }],
  },
  refusals: {
    unseen: "This model cannot be looked into:",
    unknown_sight: "This text was looked at too long ago. Look again.",
    no_word: ({ name, word, sentence }) => `${name} has no tokens for “${word}” in “${sentence}”. Choose a model that knows the word, or another sentence.`,
    few: "Give a word and at least two sentences that hold it, one a line.",
  },
  refusalsWithMessage: ["unseen"],
};

export const ZH = {
  tab: "透视",
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
  refusals: {
    unseen: "无法透视这个模型：",
    unknown_sight: "这段文本的记录已被清除，请重新透视。",
    no_word: ({ name, word, sentence }) => `在“${sentence}”中，${name} 的词元里没有“${word}”。请换一个认识这个词的模型，或换一个句子。`,
    few: "请给出一个词，以及至少两句包含它的句子，每行一句。",
  },
  refusalsWithMessage: ["unseen"],
};
