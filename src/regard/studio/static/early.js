// Before the first paint: the language and theme chosen last, so that nothing flashes, and the modules that the page needs. The server
// sends this file as a classic script with what it imports bundled in, because a module would run too late.

import { htmlLanguage, isDark, preferredLanguage, preferredTheme } from "../../web/preferences.js";

document.documentElement.dataset.theme = isDark(preferredTheme()) ? "dark" : "light";
document.documentElement.lang = htmlLanguage(preferredLanguage());

// The modules of the page that the address names begin to load now, all at once.
const modules = JSON.parse(document.getElementById("modules").textContent);
const asked = modules[location.hash.slice(1).split("?")[0]] || Object.values(modules)[0];
for (const path of asked) document.head.insertAdjacentHTML("beforeend", `<link rel="modulepreload" href="/static/${path}">`);
