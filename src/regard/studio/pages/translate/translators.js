// Which translators there are, and which of them are chosen to begin with.

// The translators among the models: all of them, one by name, those of a source language (best first), and the source languages.
export function translatorList(models) {
  const all = models.filter((model) => model.kind === "translator");
  const named = (name) => all.find((model) => model.name === name);
  const from = (lang) => all.filter((model) => model.source === lang).sort((a, b) => b.bleu - a.bleu);
  const languages = [...new Set(["zh", "de", ...all.map((model) => model.source)])].filter((lang) => from(lang).length);
  return { all, named, from, languages };
}

// Of the translators of a language, best first: the two best with attention and one without.
export function usualModels(models) {
  const withAttention = models.filter((model) => model.attention).slice(0, 2);
  const without = models.filter((model) => !model.attention).slice(0, 1);
  const usual = [...withAttention, ...without];
  return (usual.length ? usual : models.slice(0, 1)).map((model) => model.name);
}

export function roleOf(texts, model) {
  if (!model.attention) return texts.roles.fixed;
  return model.about.startsWith("bahdanau") ? texts.roles.bahdanau : texts.roles.transformer;
}

// The language a text seems to be in, judged by its letters.
export const detectLanguage = (text) => (/[\u3400-\u9fff]/.test(text) ? "zh" : /[a-zäöüß]/i.test(text) ? "de" : null);
