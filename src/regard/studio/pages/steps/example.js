// The sentence the steps begin with, and numbers small enough to follow: five features a word, two heads set by hand, two at random.

export const SENTENCES = { en: "a fluffy blue creature roamed", zh: "一只 毛茸茸的 蓝色 生物 漫步" };
export const WIDTH = 5; // of an embedding: noun, adjective, verb, soft, blue
export const HEAD_WIDTH = 2;
export const MOST_WORDS = 10;

const ARTICLE = [0, 0, 0, 0.1, 0.1];
const SOFT = [0, 1, 0, 1, 0];
const BLUE = [0, 1, 0, 0, 1];
const NOUN = [1, 0, 0, 0, 0];
const VERB = [0, 0, 1, 0, 0];
const EMBEDDINGS = {
  a: ARTICLE,
  fluffy: SOFT,
  blue: BLUE,
  creature: NOUN,
  roamed: VERB,
  一只: ARTICLE,
  毛茸茸的: SOFT,
  蓝色: BLUE,
  生物: NOUN,
  漫步: VERB,
};

export const splitWords = (text) => text.trim().split(/\s+/).filter(Boolean);

// Whether the numbers of a word were made up: it is not in the table, and nobody has typed others.
export const isMadeUp = ({ words, edited }, i) => !edited && !EMBEDDINGS[words[i].toLowerCase()];

// A word that is not in the table gets random numbers, always the same ones.
export function embed(word) {
  const embedding = EMBEDDINGS[word.toLowerCase()];
  return embedding ? [...embedding] : Array.from({ length: WIDTH }, randomNumbers(word));
}

// Numbers in [−1, 1] with one decimal, by a linear congruential generator seeded with the FNV-1a hash of a text.
function randomNumbers(seed) {
  let state = 2166136261;
  for (const c of seed) state = Math.imul(state ^ c.codePointAt(0), 16777619) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.round((state / 2 ** 32) * 20 - 10) / 10;
  };
}

// The matrices of the four heads: query, key, value (WIDTH × HEAD_WIDTH) and output (HEAD_WIDTH × WIDTH).
export const exampleHeads = () => [adjectivesForNouns(), nounsForVerbs(), randomHead("head 3"), randomHead("head 4")];

const zeros = () => [0, 0];

// A noun asks for adjectives; what they say of it (soft, blue) is passed on.
function adjectivesForNouns() {
  return {
    query: [[4, 0], [0, 1], zeros(), zeros(), zeros()],
    key: [[0, 1], [1, 0], zeros(), zeros(), zeros()],
    value: [zeros(), zeros(), zeros(), [1, 0], [0, 1]],
    output: [
      [0, 0, 0, 1, 0],
      [0, 0, 0, 0, 1],
    ],
  };
}

// A verb asks for a noun: who did it.
function nounsForVerbs() {
  return {
    query: [zeros(), zeros(), [5, 0], zeros(), zeros()],
    key: [[1, 0], zeros(), zeros(), zeros(), zeros()],
    value: [[1, 0], zeros(), zeros(), zeros(), zeros()],
    output: [
      [1, 0, 0, 0, 0],
      [0, 0, 0, 0, 0],
    ],
  };
}

function randomHead(seed) {
  const next = randomNumbers(seed);
  const random = (rows, columns) => Array.from({ length: rows }, () => Array.from({ length: columns }, next));
  return {
    query: random(WIDTH, HEAD_WIDTH),
    key: random(WIDTH, HEAD_WIDTH),
    value: random(WIDTH, HEAD_WIDTH),
    output: random(HEAD_WIDTH, WIDTH),
  };
}
