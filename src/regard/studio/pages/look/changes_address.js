// The changes of a what-if in the address: "3.1.mute,0.*.temperature.0.3" and back.

const KINDS = ["mute", "temperature", "window", "forget"];

export function changesText(changes) {
  const written = ({ layer, head, what, value }) => [layer, head ?? "*", what, ...(what === "mute" ? [] : [value])].join(".");
  return changes.length ? changes.map(written).join(",") : null;
}

// What is not a change is left out: an address may be typed by hand.
export function changesFrom(text) {
  const change = (part) => {
    const [, layer, head, what, value] = /^(\d+)\.(\d+|\*)\.([a-z]+)(?:\.([\d.]+))?$/.exec(part) || [];
    if (!KINDS.includes(what)) return null;
    return { layer: Number(layer), head: head === "*" ? null : Number(head), what, value: Number(value) || 0 };
  };
  return (text || "").split(",").map(change).filter(Boolean);
}
