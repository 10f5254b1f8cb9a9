"""Do the layers of a model tell the meanings of a word apart? Cosines within a sense and between senses, for the words of meanings.tsv.

    python recipes/meanings.py minilm smollm2 zh-en-transformer

Models are names of `regard models`, run folders, Hugging Face folders or .gguf files. The sentences of one word have it at the same
place, so that positions cannot explain a difference; pairs whose token positions differ by more than one are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from regard import zoo
from regard.sight.word_senses import sense_separation


def main() -> None:
    rows = [line.split("\t") for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()]
    for model in sys.argv[1:] or sys.exit(__doc__):
        opened = zoo.open(model)
        for word in dict.fromkeys(row[0] for row in rows):
            print(f"\n{Path(model).name}")
            try:
                result = sense_separation(opened, word, [(sense, text) for name, sense, text in rows if name == word], tolerance=1)
                print(result.table(), flush=True)
            except ValueError as error:
                print(f"{word}: {error}", flush=True)


if __name__ == "__main__":
    main()
