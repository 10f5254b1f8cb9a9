"""Split the corpora of the shipped translators so that nothing leaks: training, validation and test share no sentence on either side.

    python recipes/pairs.py zh-en --data DATA --out DATA/zh-en
    python recipes/pairs.py de-en --data DATA --out DATA/de-en

DATA holds `tatoeba-zh-en/cmn.txt`, `tatoeba-de-en/deu.txt` (English, a tab, the other language; Tatoeba as packed by manythings.org/anki)
and `3am-zh-en/{train,val,test}.{zh,en}` (MaxyLee/3AM). Written: train.tsv, valid.tsv, test.tsv, source then target, and for Chinese
3am-test.tsv and everyday.tsv, the training pairs without the captions, to end a training with. The split is a function of the files alone:
the same lines give the same split on any machine.

Training pairs only: captions, which come lower-cased and with loose punctuation, get the capitals Tatoeba gives a word and lose the spaces;
a quarter of the sources that end in a full stop lose it, because people type without one. In Chinese a place is named too seldom to be
learnt (中国 in 22 lines of Tatoeba), so sentences that name one place are repeated with others, and each place stands alone once; in
everyday.tsv peoples and languages take each other's place likewise, and whoever is loved, liked or missed may be a place. The sentence the
README shows, 我爱中国, is kept out of training.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.text.chinese import folding_table
from regard.text.pairs import Pair, read_pairs

HELD_OUT = 1000  # sentences in each of validation and test
SHOWN = "我爱中国"
VARIANTS = 6  # of a sentence that names a place
PLACES = (
    {
        "中国": "China", "日本": "Japan", "美国": "America", "法国": "France", "德国": "Germany", "英国": "England", "意大利": "Italy",
        "西班牙": "Spain", "俄罗斯": "Russia", "加拿大": "Canada", "澳大利亚": "Australia", "印度": "India", "韩国": "Korea",
        "泰国": "Thailand", "越南": "Vietnam", "巴西": "Brazil", "埃及": "Egypt", "希腊": "Greece", "瑞士": "Switzerland", "瑞典": "Sweden",
        "荷兰": "Holland", "土耳其": "Turkey", "墨西哥": "Mexico", "欧洲": "Europe", "非洲": "Africa", "亚洲": "Asia",
    },
    {
        "北京": "Beijing", "上海": "Shanghai", "香港": "Hong Kong", "东京": "Tokyo", "波士顿": "Boston", "纽约": "New York",
        "伦敦": "London", "巴黎": "Paris", "柏林": "Berlin", "罗马": "Rome", "莫斯科": "Moscow", "芝加哥": "Chicago",
    },
)  # fmt: skip
PEOPLE = (
    {
        "中国人": "Chinese", "日本人": "Japanese", "美国人": "American", "法国人": "French", "德国人": "German", "英国人": "English",
        "意大利人": "Italian", "俄罗斯人": "Russian", "加拿大人": "Canadian", "韩国人": "Korean", "印度人": "Indian",
    },
    {
        "中文": "Chinese", "日语": "Japanese", "英语": "English", "法语": "French", "德语": "German", "意大利语": "Italian",
        "俄语": "Russian", "韩语": "Korean", "西班牙语": "Spanish",
    },
)  # fmt: skip


def plain(text: str, fold: dict[int, str]) -> str:
    """What makes two sentences the same: letters and digits, without case, width, script or punctuation."""
    text = unicodedata.normalize("NFKC", text).lower().translate(fold)
    return "".join(c for c in text if c.isalnum())


def clusters(keys: list[tuple[str, str]]) -> list[list[int]]:
    """Pairs that hang together by a shared sentence on either side, as lists of their indices."""
    parent = list(range(len(keys)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[tuple[int, str], int] = {}
    for i, pair in enumerate(keys):
        for side, key in enumerate(pair):
            parent[root(i)] = root(first.setdefault((side, key), i))
    found: dict[int, list[int]] = defaultdict(list)
    for i in range(len(keys)):
        found[root(i)].append(i)
    return list(found.values())


def draw(text: str) -> str:
    """A fixed shuffle: order by this."""
    return hashlib.sha256(text.encode()).hexdigest()


def shuffled(pairs: Iterable[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: draw("\t".join(pair)))


def split(pairs: list[Pair], fold: dict[int, str], banned: set[tuple[int, str]]) -> dict[str, list[Pair]]:
    """Training, validation and test; one pair stands for a cluster that is held out, and its others are left out altogether.

    `banned` (side, sentence) are sentences of other test sets: no training pair may hold one.
    """
    keys = [(plain(p.source, fold), plain(p.target, fold)) for p in pairs]
    pieces = sorted(clusters(keys), key=lambda piece: draw("\t".join(min(keys[i] for i in piece))))
    parts: dict[str, list[Pair]] = {"test": [], "valid": [], "train": []}
    for piece in pieces:
        part = next((name for name in ("test", "valid") if len(parts[name]) < HELD_OUT), "train")
        if part == "train":
            parts["train"] += [pairs[i] for i in piece if not banned & set(enumerate(keys[i])) and all(keys[i])]
        else:
            parts[part].append(pairs[min(piece, key=lambda i: draw("\t".join(pairs[i])))])
    parts["train"] = shuffled(parts["train"])
    return parts


def capitals(sentences: Iterable[str]) -> dict[str, str]:
    """Words that stand with a capital inside sentences, nine times in ten or more: china → China."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for word in re.findall(r"(?<=[a-z,] )[A-Za-z]+", sentence):
            seen[word.lower()][word] += 1
    common = {word: forms.most_common(1)[0] for word, forms in seen.items()}
    return {word: form for word, (form, count) in common.items() if form != word and count >= max(2, 0.9 * seen[word].total())}


def written(caption: str, names: dict[str, str]) -> str:
    """A caption as people write: no space before a mark or inside a hyphenated word, names and beginnings with a capital."""
    caption = re.sub(r" (?=('s|'re|'ve|'ll|'d|'m|n't)\b|[,.!?;:])", "", caption)
    caption = re.sub(r"(?<=\w) - (?=\w)", "-", caption)
    caption = re.sub(r"[A-Za-z]+", lambda found: names.get(found[0], found[0]), caption)
    return re.sub(r"(^|[.!?] )([a-z])", lambda found: found[1] + found[2].upper(), caption)


def unstopped(pair: Pair) -> Pair:
    """The pair, or, one in four by a fixed draw, the pair with a source that has lost its full stop."""
    if pair.source[-1] in ".。" and pair.source[-2:-1] != "." and draw("stop\t" + pair.source)[0] in "0123":
        return Pair(pair.source[:-1], pair.target)
    return pair


def elsewhere(pairs: Iterable[Pair], fold: dict[int, str], kinds: Sequence[dict[str, str]]) -> list[Pair]:
    """Sentences that name one thing of the kinds, once on each side, said of others of its kind by a fixed draw."""
    found = []
    for pair in pairs:
        source = pair.source.translate(fold)
        # 日本人, 法语 and 印度尼西亚 name no place.
        named = [(z, e, kind) for kind in kinds for z, e in kind.items() if re.search(f"{z}(?![人语文话式尼])", source)]
        if len(named) != 1 or source.count(named[0][0]) != 1 or len(re.findall(rf"\b{named[0][1]}\b", pair.target)) != 1:
            continue
        here, english, kind = named[0]
        for z in sorted((z for z in kind if z != here), key=lambda z: draw(f"{z}\t{source}"))[:VARIANTS]:
            said = re.sub(rf"\b{english}\b", kind[z], pair.target)
            article = r"\1n " if kind[z][0] in "AEIO" else r"\1 "
            found.append(Pair(source.replace(here, z), re.sub(rf"\b([Aa])n? (?={kind[z]}\b)", article, said)))
    return found


def beloved(pairs: Iterable[Pair], fold: dict[int, str]) -> list[Pair]:
    """Sentences that end in someone who is loved, liked or missed, said of places by a fixed draw."""
    places = {z: e for kind in PLACES for z, e in kind.items()}
    found = []
    for pair in pairs:
        chinese = re.fullmatch(
            r"(.*(?:爱|喜欢|想念))(?:你|您|你们|他|她|他们|她们|我|我们|它|汤姆|玛丽|玛莉)([。.!！]?)", pair.source.translate(fold)
        )
        english = re.fullmatch(r"(.*\b(?:lov|lik|miss|ador)(?:e|es|ed|s)?) (?:you|him|her|them|me|us|it|Tom|Mary)([.!])", pair.target)
        if chinese and english:
            for z in sorted(places, key=lambda z: draw(f"{z}\t{pair.source}"))[:VARIANTS]:
                found.append(Pair(f"{chinese[1]}{z}{chinese[2]}", f"{english[1]} {places[z]}{english[2]}"))
    return found


def check(parts: dict[str, list[Pair]], fold: dict[int, str]) -> None:
    """No sentence of a held-out part may be in training, on either side."""
    for side in (0, 1):
        seen = {plain(pair[side], fold) for pair in parts["train"]}
        for name, pairs in parts.items():
            shared = {plain(pair[side], fold) for pair in pairs} & seen
            if name != "train" and shared:
                sys.exit(f"{name} shares {len(shared)} sentences with training on side {side}, such as {sorted(shared)[0]!r}")


def write(path: Path, pairs: Iterable[Pair]) -> None:
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("direction", choices=["zh-en", "de-en"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    chinese = given.direction == "zh-en"
    fold = str.maketrans(folding_table()) if chinese else {}
    tatoeba = read_pairs(given.data / ("tatoeba-zh-en/cmn.txt" if chinese else "tatoeba-de-en/deu.txt"), columns=(1, 0))
    captions: dict[str, list[Pair]] = {"train": [], "val": [], "test": []}
    if chinese:
        for part in captions:
            captions[part] = read_pairs([given.data / f"3am-zh-en/{part}.{language}" for language in ("zh", "en")])
    banned = {(side, plain(pair[side], fold)) for part in ("val", "test") for pair in captions[part] for side in (0, 1)}
    parts = split(tatoeba, fold, banned)
    held = banned | {(side, plain(pair[side], fold)) for part in ("valid", "test") for pair in parts[part] for side in (0, 1)}
    everyday = parts["train"]
    if chinese:

        def allowed(pair: Pair) -> bool:
            return plain(pair.source, fold) != SHOWN and not held & {(side, plain(pair[side], fold)) for side in (0, 1)}

        alone = [Pair(*named) for kind in PLACES for named in kind.items()]
        parts["train"] = list(filter(allowed, everyday + alone + elsewhere(everyday, fold, PLACES)))
        more = beloved(everyday, fold) + elsewhere(everyday, fold, PEOPLE)
        everyday = parts["train"] + list(filter(allowed, more))
    names = capitals(pair.target for pair in parts["train"])
    fresh = [pair for pair in captions["train"] if not held & {(side, plain(pair[side], fold)) for side in (0, 1)}]
    parts["train"] += [Pair(pair.source, written(pair.target, names)) for pair in fresh]
    parts["train"] = shuffled(map(unstopped, parts["train"]))
    check(parts, fold)
    if chinese:
        parts |= {"3am-test": captions["test"], "everyday": shuffled(map(unstopped, everyday))}
        check({"train": parts["everyday"], **{name: parts[name] for name in ("valid", "test", "3am-test")}}, fold)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        write(given.out / f"{name}.tsv", pairs)
    print(json.dumps({name: len(pairs) for name, pairs in parts.items()}))


if __name__ == "__main__":
    main()
