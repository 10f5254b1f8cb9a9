// The texts of the translate page. Both tables have the same keys; a test compares them.

export const EN = {
  tab: "Translate",
  title: "Translate, and see what was read", lead: "Each word is written while the model looks at the source. Hover or tab over a word on either side to see its partners.", source: "Text to translate", placeholder: "Type a sentence", from: "From", languages: { zh: "Chinese", de: "German", "": "other" }, models: "Models", examples: "Examples",
  roles: { transformer: "Transformer, with attention", bahdanau: "recurrent, with attention", fixed: "recurrent, one fixed vector, no attention" },
  attention: "Attention", soft: "soft", hard: "hard", softTitle: "each word mixes all source words by their weights", hardTitle: "each word reads one source position only: the heaviest (the limit of temperature 0)", withSoft: (text) => `with soft attention: ${text}`,
  beam: "What the beam found", logProb: "log-probability", ranked: "Best first: log-probability over a length penalty, so that long sentences are not punished for their length.", noAlignment: "This model keeps one fixed vector of the whole sentence: there is no alignment to see.", parts: (n) => `A long text, read in ${n} parts:`,
  together: "Side by side", fixedWhy: "Without attention the whole sentence is squeezed into one vector, and long sentences lose what they said.", byLength: "Score by sentence length", testSet: "Test set", fromCards: "From the models' cards: the test sentences in groups by length, each point at the middle of its group.", lengthRow: (least, most, n) => `${least} to ${most} tokens, ${n} sentences`, sourceLength: "source length (tokens)", sentences: "sentences",
  unknown: (characters) => `Read as unknown, since the model never saw them: ${characters}`, mostlyUnknown: (name, language) => `Most of this text is in characters ${name} never saw${language ? ` (it reads ${language})` : ""}: expect nonsense.`, foreign: (name, language) => `${name} reads ${language}, and this does not look like it: expect nonsense.`,
  none: "No translator is here. Train one, or name its folder when the studio starts:",
  samples: { zh: ["我爱中国。", "你今天晚上想吃什么？", "他昨天买了一本新书。", "我不知道他什么时候回来。"], de: ["Was möchtest du heute Abend essen?", "Ich weiß nicht, wann er zurückkommt.", "Sie liest jeden Abend ein Buch.", "Wo ist der Bahnhof?"], "": ["a b c d", "d c b a a", "a c e g b"] },
};

export const ZH = {
  tab: "翻译",
  title: "翻译，并看清它读了哪里", lead: "模型每写一个词，都会看一眼原文。把鼠标移到任意一侧的词上（或按 Tab 键），就能看到与它对齐的词。", source: "要翻译的文本", placeholder: "输入一个句子", from: "源语言", languages: { zh: "中文", de: "德语", "": "其他" }, models: "模型", examples: "例句",
  roles: { transformer: "Transformer，有注意力", bahdanau: "循环网络，有注意力", fixed: "循环网络，只有一个固定向量，无注意力" },
  attention: "注意力", soft: "软性", hard: "硬性", softTitle: "每个目标词按权重混合所有源词", hardTitle: "每个目标词只读一个源位置：权重最大的那个（温度趋于 0 的极限）", withSoft: (text) => `用软性注意力时：${text}`,
  beam: "束搜索找到的候选", logProb: "对数概率", ranked: "按得分从高到低：对数概率除以长度惩罚，以免长句只因为长而吃亏。", noAlignment: "这个模型把整句压成一个固定向量，没有对齐可看。", parts: (n) => `文本较长，分成 ${n} 段来读：`,
  together: "并排比较", fixedWhy: "没有注意力时，整句话都要挤进一个向量，句子一长就会丢失内容。", byLength: "不同句长的得分", testSet: "测试集", fromCards: "数据来自模型卡片：测试句按长度分组，每个点画在本组的中间。", lengthRow: (least, most, n) => `${least} 到 ${most} 个词元，${n} 句`, sourceLength: "源句长度（词元）", sentences: "句数",
  unknown: (characters) => `以下字符模型从未见过，按未知处理：${characters}`, mostlyUnknown: (name, language) => `这段文本的大部分字符 ${name} 从未见过${language ? `（它读${language}）` : ""}，译文没有意义。`, foreign: (name, language) => `${name} 读的是${language}，而这段文本看起来不是，译文没有意义。`,
  none: "这里没有翻译模型。请先训练一个，或在启动工作室时指定它的文件夹：",
  samples: { zh: ["我爱中国。", "你今天晚上想吃什么？", "他昨天买了一本新书。", "我不知道他什么时候回来。"], de: ["Was möchtest du heute Abend essen?", "Ich weiß nicht, wann er zurückkommt.", "Sie liest jeden Abend ein Buch.", "Wo ist der Bahnhof?"], "": ["a b c d", "d c b a a", "a c e g b"] },
};
