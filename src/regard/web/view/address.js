// The state of the view in the page's address, so that a link opens the same view: #layer=1&head=3&q=7&view=words.

const DELAY = 120; // milliseconds a state must rest before it is written
const COPIED = { picture: "view", scale: "scale", form: "form", lang: "lang", theme: "theme" }; // from the state to the address

// Write the state; returns a function to call on every change.
export function addressWriter(view) {
  let timer = 0;
  return () => {
    const { entry, state } = view;
    const values = {
      layer: entry.layer,
      call: entry.call || null,
      head: state.head,
      q: state.q,
      k: state.pinned ? state.k : null,
      pin: state.pinned ? 1 : null,
    };
    for (const [name, written] of Object.entries(COPIED)) values[written] = state[name];
    if (state.theme === "auto") values.theme = null;
    const written = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
    const hash = "#" + written.map(([name, value]) => `${name}=${value}`).join("&");
    clearTimeout(timer);
    timer = setTimeout(() => {
      try {
        if (location.hash !== hash) history.replaceState(null, "", hash);
      } catch {
        /* a sandboxed frame has no address of its own */
      }
    }, DELAY);
  };
}

// The changes of state that the address asks for.
export function stateFromAddress(sighting) {
  if (location.hash.length < 2) return {};
  const values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const changes = { pinned: values.pin === "1" };
  const call = Number(values.call || 0);
  const entry = sighting.entries.findIndex((one) => one.layer === Number(values.layer) && one.call === call);
  if (values.layer !== undefined && entry >= 0) Object.assign(changes, { entry, step: call });
  for (const name of ["head", "q", "k"]) if (/^\d+$/.test(values[name] ?? "")) changes[name] = Number(values[name]);
  for (const [name, written] of Object.entries(COPIED)) if (values[written]) changes[name] = values[written];
  return changes;
}
