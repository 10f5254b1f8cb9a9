// The texts of the shell: what stands around the pages, and the refusals that any page may meet. Both tables have the same keys; a test compares them.

export const EN = {
  pages: "Rooms", skip: "Skip to the room", other: "中文", otherTitle: "改用中文", light: "Light theme", dark: "Dark theme", keys: "Keys", close: "Close", link: "Copy link", copied: "Copied", copy: "Copy", save: "Save",
  same: "The same on the command line or in Python", working: "working…", inLine: (n) => `waiting, ${n} before this`, cancel: "Cancel",
  keyList: (pages) => [[`Alt 1 … ${pages}`, "the rooms"], ["l", "English / 中文"], ["t", "light / dark"], ["?", "this list"], ["Tab", "from control to control"], ["← → ↑ ↓", "from word to word, from cell to cell"], ["[ ] { }", "heads and layers, in a pattern"], ["Enter", "translate; Ctrl Enter: look"], ["Esc", "let go of what is pinned"]],
  refusals: {
    invalid: "This cannot be done:",
    failed: "The job failed; the studio goes on.",
    changed: ({ name }) => `The files of ${name} are not those its card was written for, so it was not opened.`,
    busy: "Too many jobs are waiting. Try again in a moment.",
    late: ({ seconds }) => `This took longer than ${seconds} s and was stopped. Give it less to do.`,
    memory: ({ needed, free }) => `This needs about ${needed} GB of memory, and ${free} GB are free. Shorten the text.`,
    large: ({ most }) => `This is too large: at most ${Number(most).toLocaleString("en-US")} bytes.`,
    crashed: "The job's process died, most likely for want of memory. A new one has been started: try a shorter text.",
    gone: "The studio does not answer. Is it still running in the terminal?",
    unknown_model: "This model is not here.",
    slow: "The request took too long to arrive.",
    origin: "The studio answers its own page only.",
    host: "The studio answers as 127.0.0.1 or localhost only.",
  },
  // Refusals whose own message, in English and with its numbers, is shown as well.
  refusalsWithMessage: ["invalid", "failed", "changed", "unknown_model"],
};

export const ZH = {
  pages: "房间", skip: "跳到正文", other: "English", otherTitle: "Switch to English", light: "浅色", dark: "深色", keys: "快捷键", close: "关闭", link: "复制链接", copied: "已复制", copy: "复制", save: "保存",
  same: "同样的结果，用命令行或 Python", working: "计算中……", inLine: (n) => `排队中，前面还有 ${n} 个`, cancel: "取消",
  keyList: (pages) => [[`Alt 1 … ${pages}`, "切换房间"], ["l", "中文 / English"], ["t", "浅色 / 深色"], ["?", "本列表"], ["Tab", "在控件之间移动"], ["← → ↑ ↓", "在词之间、单元格之间移动"], ["[ ] { }", "在图样中切换头与层"], ["Enter", "翻译；Ctrl Enter：透视"], ["Esc", "取消固定"]],
  refusals: {
    invalid: "无法完成：",
    failed: "任务失败，工作室继续运行。",
    changed: ({ name }) => `${name} 的文件与模型卡片记录的不一致，因此没有打开。详情：`,
    busy: "排队的任务太多，请稍后再试。",
    late: ({ seconds }) => `超过 ${seconds} 秒，已停止。请减少工作量。`,
    memory: ({ needed, free }) => `大约需要 ${needed} GB 内存，而空闲只有 ${free} GB。请缩短文本。`,
    large: ({ most }) => `内容过大：最多 ${Number(most).toLocaleString("en-US")} 字节。`,
    crashed: "任务进程意外终止，多半是内存不足。已启动新进程，请换一段较短的文本。",
    gone: "工作室没有应答。终端里的程序还在运行吗？",
    unknown_model: "没有这个模型。",
    slow: "请求到达得太慢。",
    origin: "工作室只应答自己的页面。",
    host: "工作室只以 127.0.0.1 或 localhost 的名义应答。",
  },
  // Refusals whose own message, in English and with its numbers, is shown as well.
  refusalsWithMessage: ["invalid", "failed", "changed", "unknown_model"],
};
