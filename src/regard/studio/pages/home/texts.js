// The texts of the front page. Both tables have the same keys; a test compares them.

export const EN = {
  tab: "Begin",
  title: "See attention at work, in real models, with every number checked",
  lead: "Everything runs on this machine: nothing is sent anywhere.",
  begin: "Begin",
  doors: {
    learn: { title: "Learn it", about: "Attention in ten minutes: eight screens, each with something to try and a question to answer." },
    inspect: {
      title: "Inspect a model",
      about: "What every head of a model attends to on your text, and what happens when you change it.",
    },
    translate: { title: "Translate and compare", about: "A sentence, its translation and its alignment; with attention and without." },
  },
  tryTitle: "Try it: choose a word and see what it attends to",
  tryLabel: "A sentence; choose the query word",
  told: (word, weights) => `“${word}” attends to: ${weights}`,
  trySteps: "How are these weights computed?",
  more: "Also here:",
  pages: {
    write: "where the next token comes from",
    train: "train in the page",
    steps: "every step with its numbers",
    regression: "attention as kernel regression",
    cost: "what a model costs",
  },
  recent: "Recently opened",
  names: {
    learn: "Lesson",
    look: "Inspect",
    translate: "Translate",
    steps: "Step by step",
    write: "Write",
    train: "Train",
    regression: "Regression",
    cost: "Cost",
  },
};

export const ZH = {
  tab: "开始",
  title: "看清注意力在真实模型中怎样工作，每个数字都经过验证",
  lead: "一切都在本机运行，不会向外发送任何内容。",
  begin: "从这里开始",
  doors: {
    learn: { title: "学习", about: "十分钟学会注意力：八屏，每一屏都可以动手试，并回答一个问题。" },
    inspect: { title: "查看模型的注意力", about: "模型的每个头在你的文本上关注什么；改动它又会怎样。" },
    translate: { title: "翻译并比较", about: "一个句子的译文和词对齐；有注意力和没有注意力的对比。" },
  },
  tryTitle: "试一试：选一个词，看它关注哪些词",
  tryLabel: "一个句子，请选择作为查询的词",
  told: (word, weights) => `“${word}”关注：${weights}`,
  trySteps: "这些权重是怎样算出来的？",
  more: "还有：",
  pages: {
    write: "下一个词元从何而来",
    train: "在页面里训练",
    steps: "逐步计算，每一步都列出数值",
    regression: "从核回归看注意力",
    cost: "模型的开销",
  },
  recent: "最近打开",
  names: {
    learn: "课程",
    look: "查看注意力",
    translate: "翻译",
    steps: "逐步计算",
    write: "续写",
    train: "训练",
    regression: "回归",
    cost: "开销",
  },
};
