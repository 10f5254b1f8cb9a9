// What the page says, in English and Chinese.

const SPEECH = {
  en: {
    lang: "en", other: "中文", otherTitle: "改用中文",
    pattern: "Pattern", words: "Words", stacked: "Stacked", lines: "Lines", heads: "Heads", layer: "Layer", head: "Head", step: "Step",
    rowForm: "rows sum to 1", columnForm: "columns sum to 1", form: "Form",
    rowTitle: "Row form: queries down, keys across", columnTitle: "The textbooks' column form: keys down, queries across",
    linear: "linear", log: "log", rank: "rank", scale: "Scale", theme: "Theme", light: "light", dark: "dark", auto: "auto",
    search: "Find a token", found: (i, n) => `${i} of ${n}`, none: "not found", keys: "Keys", save: "Save", link: "Copy link", copied: "Copied",
    copy: "Copy", query: "query", key: "key", queries: "queries", keysWord: "keys", weight: "weight", mass: "mass", masked: "masked",
    score: "score", scoreIs: "what the query and the key score: q·k/√d with what the model adds (bias, soft cap, temperature)", entropy: "entropy", sink: "on the first token", distance: "how far it looks", received: "received", value_norm: "sent (norm-weighted)",
    max_logit: "largest score", nats: "nats", ofMost: (x) => `of at most ${x}`, meanOf: "mean over queries", back: "back", ahead: "ahead", here: "itself",
    rankOf: (r, n) => `${r} of ${n} in its row`, pooledCell: (a, b) => `one cell is ${a} queries × ${b} keys`, exactCell: "exact weights",
    topOnly: (k) => `long text: the ${k} heaviest keys of each row are kept`, rest: "all other keys",
    proof: "proof", holds: "holds", fails: "PROOF FAILS", rowSum: "rows sum to 1 within", output: "Σ p·v equals the model's output within",
    checked: (n) => `${n} rows checked`, kernel: "kernel", mask: "mask", noProof: "no proof was taken", zoomIn: "Zoom in", zoomOut: "Zoom out", fit: "Whole pattern",
    pinned: "pinned · Esc", hint: "hover or tab to look, click to pin", python: "The same in Python", missed: "Attention nobody could see",
    tokens: (n) => `${n} token${n === "1" ? "" : "s"}`, layersHeads: (l, h) => `${l} layer${l === 1 ? "" : "s"} × ${h} head${h === 1 ? "" : "s"}`, headsAll: (n) => `${n} heads`, noLabel: "no label", looked: "looked at", looking: "looking",
    source: "source", target: "target", unsupported: "This browser cannot unpack the page's data (DecompressionStream); use a version from 2023 or later.",
    noMap: "Nothing to draw here: neither a pooled map nor weights were kept. Watch with readings=[Pooled(256, 256), TopK(2)].",
    gridHelp: "Thumbnails of every layer and head. Arrow keys move, Enter chooses.",
    labelNames: {},
    noteTitle: "What these weights do and do not explain",
    note: [
      "A weight says how much of a key's value vector went into a query's result in this head. It is exact, and the proof above shows it.",
      "It does not say why, nor what the model would do without it: values can be tiny, later layers can undo a head, and other weights can give the same output (Jain and Wallace 2019; Wiegreffe and Pinter 2019).",
      "Much weight on the first token is often a place to rest, not meaning. To learn what a head causes, change it and measure: regard.change(model)."],
    keyList: [["← →", "walk the tokens"], ["↑ ↓", "walk the keys of a pinned token"], ["[ ]", "head before, after"], ["{ }", "layer before, after"], ["Enter / click", "pin"], ["Esc", "release"],
      ["/", "find a token"], ["1 2 3 4", "pattern, words, stacked, lines"], ["s", "next scale"], ["f", "row or column form"], ["+ − 0", "zoom in, out, whole"], ["t", "light or dark"], ["l", "中文"], ["?", "these keys"]],
  },
  zh: {
    lang: "zh-CN", other: "English", otherTitle: "Switch to English",
    pattern: "图样", words: "词句", stacked: "逐行", lines: "连线", heads: "注意力头", layer: "层", head: "头", step: "步",
    rowForm: "每行和为 1", columnForm: "每列和为 1", form: "形式",
    rowTitle: "行形式：查询向下，键向右", columnTitle: "教科书的列形式：键向下，查询向右",
    linear: "线性", log: "对数", rank: "名次", scale: "刻度", theme: "明暗", light: "亮", dark: "暗", auto: "自动",
    search: "查找词元", found: (i, n) => `第 ${i} 个，共 ${n} 个`, none: "未找到", keys: "按键", save: "保存", link: "复制链接", copied: "已复制",
    copy: "复制", query: "查询", key: "键", queries: "个查询", keysWord: "个键", weight: "权重", mass: "权重之和", masked: "被掩码",
    score: "分数", scoreIs: "查询与键的打分：q·k/√d，加上模型自带的偏置、软上限与温度", entropy: "熵", sink: "落在首个词元上", distance: "看多远", received: "收到的权重", value_norm: "送出（按范数加权）",
    max_logit: "最大得分", nats: "奈特", ofMost: (x) => `至多 ${x}`, meanOf: "对查询取平均", back: "向前文", ahead: "向后文", here: "自身",
    rankOf: (r, n) => `行内第 ${r}，共 ${n}`, pooledCell: (a, b) => `一格为 ${a} 个查询 × ${b} 个键`, exactCell: "精确权重",
    topOnly: (k) => `长文本：每行保留权重最大的 ${k} 个键`, rest: "其余的键合计",
    proof: "验证", holds: "成立", fails: "验证不成立", rowSum: "各行之和与 1 相差不超过", output: "Σ p·v 与模型输出相差不超过",
    checked: (n) => `核对了 ${n} 行`, kernel: "内核", mask: "掩码", noProof: "没有验证", zoomIn: "放大", zoomOut: "缩小", fit: "完整图样",
    pinned: "已固定 · Esc", hint: "悬停或用 Tab 查看，单击固定", python: "用 Python 得到同一视图", missed: "看不到的注意力",
    tokens: (n) => `${n} 个词元`, layersHeads: (l, h) => `${l} 层 × ${h} 头`, headsAll: (n) => `${n} 个头`, noLabel: "无标签", looked: "被看", looking: "在看",
    source: "源句", target: "译文", unsupported: "此浏览器无法解开页面数据（DecompressionStream），请使用 2023 年以后的版本。",
    noMap: "这里没有可画的内容：既未保留汇聚图，也未保留权重。请用 readings=[Pooled(256, 256), TopK(2)] 观察。",
    gridHelp: "每一层、每一头的缩略图。方向键移动，回车选定。",
    labelNames: { "previous token": "前一词元", sink: "汇点", local: "局部", induction: "归纳", "duplicate token": "重复词元", uniform: "均匀" },
    noteTitle: "这些权重说明了什么、没有说明什么",
    note: [
      "权重是在这一头里，一个键的值向量有多少进入了查询的结果。它是精确的，上面的验证可以证明。",
      "它不说明原因，也不说明没有它模型会怎样：值向量可能很小，后面的层可能抵消这一头，别的权重也可能得到同样的输出（Jain 与 Wallace 2019；Wiegreffe 与 Pinter 2019）。",
      "首个词元上的大权重常常只是歇脚处，并无含义。想知道一个头造成了什么，就改变它再测量：regard.change(model)。"],
    keyList: [["← →", "逐个词元移动"], ["↑ ↓", "在固定词元的各个键间移动"], ["[ ]", "上一头、下一头"], ["{ }", "上一层、下一层"], ["Enter / 单击", "固定"], ["Esc", "松开"],
      ["/", "查找词元"], ["1 2 3 4", "图样、词句、逐行、连线"], ["s", "换刻度"], ["f", "行形式或列形式"], ["+ − 0", "放大、缩小、完整"], ["t", "亮或暗"], ["l", "English"], ["?", "显示这些按键"]],
  },
};

const SHAPES = { "previous token": "◀", sink: "▼", local: "◆", induction: "↻", "duplicate token": "◎", uniform: "▦" };

function labelWord(say, name) { return say.labelNames[name] || name; }

// Elements without markup: text always goes in as text, so a token can hold anything.
function make(tag, props, ...children) {
  const node = tag.includes(":") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.setAttribute("class", value);
    else if (name === "text") node.textContent = value;
    else if (name === "css") for (const [k, v] of Object.entries(value)) k.startsWith("--") ? node.style.setProperty(k, v) : node.style[k] = v;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

function number(x, digits = 3) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-3 || size >= 1e5) return x.toExponential(1).replace("e-", "e−");
  return size >= 100 ? x.toFixed(0) : size >= 10 ? x.toFixed(1) : x.toFixed(digits);
}

function count(n) { return Number(n).toLocaleString("en-US"); }
