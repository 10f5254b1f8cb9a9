// The small example of the steps, computed by the server: five words with vectors made by hand.

import { post } from "../../static/server.js";
import { embed, exampleHeads, SENTENCES, splitWords } from "../steps/example.js";

export const exampleWords = (lang) => splitWords(SENTENCES[lang]);

// words: of the example; heads: how many; settings: of the request. Returns { words, embeddings, maps, answer }.
export async function computeExample(words, heads = 1, settings = {}) {
  const embeddings = words.map(embed);
  const maps = exampleHeads().slice(0, heads);
  const answer = await post("/api/steps", { embeddings, heads: maps, score: "dot", scaled: true, mask: "causal", ...settings });
  return { words, embeddings, maps, answer };
}
