"""Put together the text of the shipped English language model: one sentence a line, and held-out lines that share no sentence with it.

    python recipes/english.py --data DATA --out data/english

DATA has `tatoeba-zh-en/cmn.txt` and `tatoeba-de-en/deu.txt` (English, a tab, the other language), `3am-zh-en/{train,val,test}.en` and
`tinyshakespeare/input.txt`. It writes train.txt, valid.txt and three test sets: tatoeba-test.txt, captions-test.txt (3AM's own) and
shakespeare-test.txt (the last tenth of the plays, the text on which the character model `shakespeare` is scored too). The split depends
only on the files. Every sentence of Tatoeba is kept once; captions get the capitals and spaces of ordinary sentences (recipes/pairs.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pairs import capitals, clean_caption, plain, shuffle_key

HELD_OUT = 1500  # sentences of Tatoeba in each of validation and test


def lines_of(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]


def distinct(sentences: list[str], seen: set[str]) -> list[str]:
    """Return the sentences that are new, compared without case and punctuation; `seen` is added to."""
    new = []
    for sentence in sentences:
        key = plain(sentence, {})
        if key and key not in seen:
            seen.add(key)
            new.append(sentence)
    return new


def parts(data: Path) -> dict[str, list[str]]:
    """Return the lines of each file by its name."""
    tatoeba = [line.split("\t")[0].strip() for name in ("zh-en/cmn", "de-en/deu") for line in lines_of(data / f"tatoeba-{name}.txt")]
    names = capitals(tatoeba)
    captions = {part: [clean_caption(line, names) for line in lines_of(data / f"3am-zh-en/{part}.en")] for part in ("train", "val", "test")}
    play = (data / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
    split = int(len(play) * 0.9)
    seen: set[str] = set()
    captions = {part: distinct(captions[part], seen) for part in ("test", "val", "train")}  # what is held out comes first
    sentences = sorted(distinct(tatoeba, seen), key=shuffle_key)
    test, valid, rest = sentences[:HELD_OUT], sentences[HELD_OUT : 2 * HELD_OUT], sentences[2 * HELD_OUT :]
    mixed = sorted(rest + captions["train"], key=shuffle_key)
    return {
        "train": mixed + play[:split].split("\n"),
        "valid": sorted(valid + captions["val"], key=shuffle_key),
        "tatoeba-test": test,
        "captions-test": captions["test"],
        "shakespeare-test": play[split:].split("\n"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, lines in parts(arguments.data).items():
        (arguments.out / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {len(lines):,} lines, {sum(map(len, lines)) + len(lines):,} characters")


if __name__ == "__main__":
    main()
