// Copying a text: the button pressed says so for a moment.

import { h } from "./dom.js";

const SHOWN = 1200; // milliseconds

export function copyText(text, button, copied) {
  const label = button.textContent;
  const done = () => {
    button.textContent = copied;
    setTimeout(() => {
      button.textContent = label;
    }, SHOWN);
  };
  // Without permission for the clipboard, as in a sandboxed frame.
  const byCommand = () => {
    const area = h("textarea", { value: text });
    button.parentElement.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    done();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byCommand);
  else byCommand();
}
