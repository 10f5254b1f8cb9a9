// Before the first paint: the language and theme chosen last, so that nothing flashes. The server sends this file as a classic script with
// what it imports bundled in, because a module would run too late.

import { htmlLanguage, isDark, preferredLanguage, preferredTheme } from "../../web/preferences.js";

document.documentElement.dataset.theme = isDark(preferredTheme()) ? "dark" : "light";
document.documentElement.lang = htmlLanguage(preferredLanguage());
