// Before the first paint: the language and the theme that were chosen last, so that nothing flashes.
(function () {
  const remembered = (name) => { try { return localStorage.getItem("regard." + name); } catch { return null; } };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = remembered("theme");
  document.documentElement.dataset.theme = theme === "light" || theme === "dark" ? theme : dark ? "dark" : "light";
  const lang = remembered("lang") || ((navigator.language || "").startsWith("zh") ? "zh" : "en");
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
})();
