// The keyboard shortcuts of the view (texts.js lists them for the reader).

import { otherLanguage } from "../preferences.js";
import { SCALES } from "./scales.js";

export function listenToKeys(view, parts, frame, pictures) {
  const { state, root } = view;
  const actions = {
    ArrowRight: () => view.moveQuery(1),
    ArrowLeft: () => view.moveQuery(-1),
    ArrowDown: () => view.moveKey(1),
    ArrowUp: () => view.moveKey(-1),
    "]": () => view.changeHead(1),
    "[": () => view.changeHead(-1),
    "}": () => view.changeLayer(1),
    "{": () => view.changeLayer(-1),
    "/": () => frame.focusSearch(),
    "?": () => frame.toggleKeys(),
    s: () => view.set({ scale: SCALES[(SCALES.indexOf(state.scale) + 1) % SCALES.length] }),
    f: () => view.set({ form: state.form === "row" ? "column" : "row" }),
    t: () => view.set({ theme: view.dark ? "light" : "dark" }),
    l: () => view.set({ lang: otherLanguage(state.lang) }),
    "+": () => parts.pattern.zoom(0.5),
    "=": () => parts.pattern.zoom(0.5),
    "-": () => parts.pattern.zoom(2),
    0: () => parts.pattern.fit(),
    Enter: () => view.pin(state.q, state.k),
  };
  pictures.forEach((picture, i) => {
    actions[i + 1] = () => view.set({ picture });
  });

  root.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape") {
      if (frame.closeAll()) return;
      if (typing) event.target.blur();
      view.unpin();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    if (event.key === "Enter" && event.target.closest("button, summary, a")) return;
    if (event.key.startsWith("Arrow") && event.target.closest("[role=tab]")) return;
    actions[event.key]();
    event.preventDefault();
  });
}

// On a page of its own the view also takes the keys pressed while nothing has the focus.
export function takePageKeys(root, signal) {
  const pass = (event) => {
    if (event.target === document.body && !root.dispatchEvent(new KeyboardEvent("keydown", event))) event.preventDefault();
  };
  document.addEventListener("keydown", pass, { signal });
}
