// What this browser keeps: the language and theme chosen last, and other values by name. A private window, or a page
// opened from disk, may refuse to store them.

export function stored(name) {
  try {
    return localStorage.getItem("regard." + name);
  } catch {
    return null;
  }
}

export function store(name, value) {
  try {
    localStorage.setItem("regard." + name, value);
  } catch {
    /* forgotten when the page closes */
  }
}

export const LANGUAGES = ["en", "zh"];
export const htmlLanguage = (lang) => (lang === "zh" ? "zh-CN" : "en");
export const otherLanguage = (lang) => (lang === "en" ? "zh" : "en");

// The stored language, else the browser's.
export function preferredLanguage() {
  const lang = stored("lang");
  if (LANGUAGES.includes(lang)) return lang;
  return (navigator.language || "").startsWith("zh") ? "zh" : "en";
}

// "light" or "dark" if one was stored, else "auto": the system's.
export function preferredTheme() {
  const theme = stored("theme");
  return theme === "light" || theme === "dark" ? theme : "auto";
}

export const systemTheme = matchMedia("(prefers-color-scheme: dark)");
export const isDark = (theme) => theme === "dark" || (theme === "auto" && systemTheme.matches);

// Call act(true) before this page is printed and act(false) after it, once each.
export function onPrinting(act, signal) {
  let printing = false;
  const tell = (now) => {
    if (now !== printing) act((printing = now));
  };
  matchMedia("print").addEventListener("change", ({ matches }) => tell(matches), { signal });
  window.addEventListener("beforeprint", () => tell(true), { signal });
  window.addEventListener("afterprint", () => tell(false), { signal });
}
