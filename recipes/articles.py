"""Split question sets by article into training, validation and test files for `regard train article`.

    python recipes/articles.py --data DATA --out data/articles

DATA must contain qa-zh/cmrc_dev.json, qa-zh/drcd_dev.json and qa-long-en/covidqa.json. A fifth of the articles, chosen by a hash of their
titles, are test articles; a twentieth are validation articles. Paragraphs of one article stay together.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path
from typing import Any

SETS = {"cmrc": "qa-zh/cmrc_dev.json", "drcd": "qa-zh/drcd_dev.json", "papers": "qa-long-en/covidqa.json"}


def part_of(article: dict[str, Any], number: int) -> str:
    """Return the part an article belongs to."""
    title = article.get("title") or article["paragraphs"][0].get("document_id") or number
    remainder = zlib.crc32(str(title).encode()) % 20
    return "test" if remainder % 5 == 0 else "valid" if remainder == 1 else "train"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, file in SETS.items():
        articles = json.loads((arguments.data / file).read_text(encoding="utf-8"))["data"]
        parts: dict[str, list[dict[str, Any]]] = {"train": [], "valid": [], "test": []}
        for number, article in enumerate(articles):
            parts[part_of(article, number)].append(article)
        for part, chosen in parts.items():
            (arguments.out / f"{name}-{part}.json").write_text(json.dumps({"data": chosen}, ensure_ascii=False), encoding="utf-8")
        counts = {part: sum(len(p["qas"]) for a in chosen for p in a["paragraphs"]) for part, chosen in parts.items()}
        print(name, ", ".join(f"{part}: {len(parts[part])} articles, {count} questions" for part, count in counts.items()))


if __name__ == "__main__":
    main()
