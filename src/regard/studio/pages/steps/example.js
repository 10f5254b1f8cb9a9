// The sentence the steps begin with, and vectors small enough to follow: five features a word, two heads set by hand, two by chance.

export const SENTENCES = { en: "a fluffy blue creature roamed", zh: "一只 毛茸茸的 蓝色 生物 漫步" };
const KNOWN = {
  a: [0, 0, 0, 0.1, 0.1], fluffy: [0, 1, 0, 1, 0], blue: [0, 1, 0, 0, 1], creature: [1, 0, 0, 0, 0], roamed: [0, 0, 1, 0, 0],
  一只: [0, 0, 0, 0.1, 0.1], 毛茸茸的: [0, 1, 0, 1, 0], 蓝色: [0, 1, 0, 0, 1], 生物: [1, 0, 0, 0, 0], 漫步: [0, 0, 1, 0, 0],
};
export const D = 5, K = 2, MOST = 10;

// A word nobody set gets numbers of its own, always the same ones.
function chance(text) {
  let state = 2166136261;
  for (const c of text) state = Math.imul(state ^ c.codePointAt(0), 16777619) >>> 0;
  return () => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.round((state / 2 ** 32) * 20 - 10) / 10; };
}
export function vector(word) {
  const known = KNOWN[word.toLowerCase()];
  if (known) return [...known];
  const next = chance(word);
  return Array.from({ length: D }, next);
}
export const split = (text) => text.trim().split(/\s+/).filter(Boolean).slice(0, MOST);

const rows = (list) => list.map((row) => [...row]);
const nothing = [0, 0];
export function heads() {
  const random = (n) => { const next = chance(`head ${n}`); const grid = (r, c) => Array.from({ length: r }, () => Array.from({ length: c }, () => next())); return { query: grid(D, K), key: grid(D, K), value: grid(D, K), output: grid(K, D) }; };
  return [
    // A noun asks for adjectives; what they say of it (soft, blue) is passed on.
    { query: rows([[4, 0], [0, 1], nothing, nothing, nothing]), key: rows([[0, 1], [1, 0], nothing, nothing, nothing]), value: rows([nothing, nothing, nothing, [1, 0], [0, 1]]), output: rows([[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]) },
    // A verb asks for a noun: who did it.
    { query: rows([nothing, nothing, [5, 0], nothing, nothing]), key: rows([[1, 0], nothing, nothing, nothing, nothing]), value: rows([[1, 0], nothing, nothing, nothing, nothing]), output: rows([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]) },
    random(3), random(4),
  ];
}
