"""Write the text bert-small is pre-trained on: one example per line, Chinese and English, and held-out lines of each language.

    python recipes/bert_text.py --data DATA --out DATA/bert

DATA has `tatoeba-zh-en/cmn.txt`, `tatoeba-de-en/deu.txt` (only its English side), `3am-zh-en/train.{zh,en}` and
`qa-zh/{cmrc,drcd}_dev.json` (only the paragraphs, not the questions). It writes train.txt, valid.txt, valid-zh.txt and valid-en.txt.
Whole paragraphs and sentences are held out by a hash of their letters, so that no held-out sentence is in training in other
punctuation or in traditional characters; sentences that differ in one word can be on both sides.

Paragraphs are cut after sentences into lines of at most 120 characters. Half of the single sentences stand alone, the others are joined to
lines of up to six, so that the model sees short and long lines.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from pairs import plain

from regard.text.chinese import folding_table
from regard.text.pairs import read_lines, read_pairs
from regard.text.script import script_of
from regard.text.sentences import split_to_fit

HELD_OUT = 2  # per cent
LINE = 120  # characters in a line of a paragraph


def share(text: str, kind: str) -> int:
    """Return a number from 0 to 99 that depends only on the text and the kind of decision."""
    return int(hashlib.sha256(f"{kind}\t{text}".encode()).hexdigest()[:8], 16) % 100


def sentences(data: Path, fold: dict[int, str]) -> Iterator[list[str]]:
    """Yield the sentences of each corpus, those with the same letters once."""
    zh_en = read_pairs(data / "tatoeba-zh-en/cmn.txt", columns=(0, 1))
    german = [pair.source for pair in read_pairs(data / "tatoeba-de-en/deu.txt", columns=(0, 1))]
    captions = [read_lines(data / f"3am-zh-en/train.{language}") for language in ("zh", "en")]
    for corpus in ([pair.target for pair in zh_en], [pair.source for pair in zh_en] + german, *captions):
        yield list({plain(line, fold): line.strip() for line in corpus if plain(line, fold)}.values())


def paragraphs(data: Path) -> Iterator[str]:
    """Yield the paragraphs of the two Chinese question-answering sets."""
    for name in ("cmrc", "drcd"):
        articles = json.loads((data / f"qa-zh/{name}_dev.json").read_text(encoding="utf-8"))["data"]
        for text in sorted({paragraph["context"] for article in articles for paragraph in article["paragraphs"]}):
            yield " ".join(text.split())


def joined(lines: list[str]) -> Iterator[str]:
    """Yield half of the sentences as they are, the others joined to lines of two to six (all chosen by hash)."""
    parts: list[str] = []
    for line in sorted(lines, key=lambda line: hashlib.sha256(line.encode()).digest()):
        if share(line, "alone") < 50:
            yield line
            continue
        parts.append(line)
        if len(parts) >= 2 + share(parts[0], "count") % 5:
            yield (" " if script_of(line) == "LATIN" else "").join(parts)
            parts = []
    if parts:
        yield (" " if script_of(parts[0]) == "LATIN" else "").join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    fold = str.maketrans(folding_table())
    train: list[str] = []
    held_out: dict[str, list[str]] = {"zh": [], "en": []}
    for corpus in sentences(arguments.data, fold):
        kept = [line for line in corpus if share(plain(line, fold), "held out") >= HELD_OUT]
        train += joined(kept)
        for line in corpus:
            if share(plain(line, fold), "held out") < HELD_OUT:
                held_out["zh" if script_of(line) == "CJK" else "en"].append(line)
    for paragraph in paragraphs(arguments.data):
        lines = split_to_fit(paragraph, lambda part: len(part) <= LINE)
        merged = [lines[0]]
        for line in lines[1:]:
            if len(merged[-1]) + len(line) <= LINE:
                merged[-1] += line
            else:
                merged.append(line)
        if share(plain(paragraph, fold), "held out") < HELD_OUT:
            held_out["zh"] += merged
        else:
            train += merged
    arguments.out.mkdir(parents=True, exist_ok=True)
    train.sort(key=lambda line: hashlib.sha256(line.encode()).digest())
    files = {"train": train, "valid-zh": held_out["zh"], "valid-en": held_out["en"], "valid": held_out["zh"] + held_out["en"]}
    for name, lines in files.items():
        (arguments.out / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        print(f"{name}: {len(lines):,} lines, {sum(map(len, lines)):,} characters")


if __name__ == "__main__":
    main()
