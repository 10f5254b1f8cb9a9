"""Split the corpora of the shipped translators: training, validation and test sets share no sentence on either side.

    python recipes/pairs.py zh-en --data DATA --out DATA/zh-en
    python recipes/pairs.py de-en --data DATA --out DATA/de-en

DATA has `tatoeba-zh-en/cmn.txt`, `tatoeba-de-en/deu.txt` (English, a tab, the other language; Tatoeba as packed by manythings.org/anki)
and `3am-zh-en/{train,val,test}.{zh,en}` (MaxyLee/3AM). It writes train.tsv, valid.tsv, test.tsv (source, target), and for
Chinese 3am-test.tsv and everyday.tsv, the training pairs without the captions, for the last part of a training. The split depends only on
the files: the same lines give the same split on any machine.

Changes to the training pairs: captions, which are lower-cased with spaces before punctuation, get the capitals words have in Tatoeba and
lose the spaces; a quarter of the sources that end in a full stop lose it, because people type without one. Chinese place names are too rare
to be learned (中国 is in 22 lines of Tatoeba), so sentences with one place name are repeated with others, and each name is added once by
itself; in everyday.tsv the names of peoples and languages are exchanged in the same way, and the object of love, like or miss is replaced
by a place. The sentence in the README, 我爱中国, is excluded from training.
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

HELD_OUT = 1000  # pairs in each of validation and test
README_SENTENCE = "我爱中国"
VARIANTS = 6  # copies of a sentence with another place name
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
    """Normalise a sentence for comparison: letters and digits without case, width, traditional forms and punctuation."""
    text = unicodedata.normalize("NFKC", text).lower().translate(fold)
    return "".join(c for c in text if c.isalnum())


def clusters(keys: list[tuple[str, str]]) -> list[list[int]]:
    """Return the connected components of pairs that share a sentence on either side, as lists of indices."""
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
    components: dict[int, list[int]] = defaultdict(list)
    for i in range(len(keys)):
        components[root(i)].append(i)
    return list(components.values())


def shuffle_key(text: str) -> str:
    """Return a hash to sort by, for a shuffle that is the same every time."""
    return hashlib.sha256(text.encode()).hexdigest()


def shuffled(pairs: Iterable[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: shuffle_key("\t".join(pair)))


def split(pairs: list[Pair], fold: dict[int, str], banned: set[tuple[int, str]]) -> dict[str, list[Pair]]:
    """Split pairs into training, validation and test. Of a held-out cluster one pair is kept; the others are dropped.

    `banned` are (side, sentence) of other test sets, which no training pair may contain.
    """
    keys = [(plain(p.source, fold), plain(p.target, fold)) for p in pairs]
    ordered = sorted(clusters(keys), key=lambda cluster: shuffle_key("\t".join(min(keys[i] for i in cluster))))
    parts: dict[str, list[Pair]] = {"test": [], "valid": [], "train": []}
    for cluster in ordered:
        part = next((name for name in ("test", "valid") if len(parts[name]) < HELD_OUT), "train")
        if part == "train":
            parts["train"] += [pairs[i] for i in cluster if not banned & set(enumerate(keys[i])) and all(keys[i])]
        else:
            parts[part].append(pairs[min(cluster, key=lambda i: shuffle_key("\t".join(pairs[i])))])
    parts["train"] = shuffled(parts["train"])
    return parts


def capitals(sentences: Iterable[str]) -> dict[str, str]:
    """Return the words that have a capital inside sentences in at least 90 % of cases: china → China."""
    forms_of: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for word in re.findall(r"(?<=[a-z,] )[A-Za-z]+", sentence):
            forms_of[word.lower()][word] += 1
    common = {word: forms.most_common(1)[0] for word, forms in forms_of.items()}
    return {word: form for word, (form, count) in common.items() if form != word and count >= max(2, 0.9 * forms_of[word].total())}


def clean_caption(caption: str, names: dict[str, str]) -> str:
    """Return a caption without spaces before punctuation and around hyphens, with capitals for names and sentence beginnings."""
    caption = re.sub(r" (?=('s|'re|'ve|'ll|'d|'m|n't)\b|[,.!?;:])", "", caption)
    caption = re.sub(r"(?<=\w) - (?=\w)", "-", caption)
    caption = re.sub(r"[A-Za-z]+", lambda match: names.get(match[0], match[0]), caption)
    return re.sub(r"(^|[.!?] )([a-z])", lambda match: match[1] + match[2].upper(), caption)


def drop_full_stop(pair: Pair) -> Pair:
    """Return the pair, for one in four (by hash) without the full stop of the source."""
    if pair.source[-1] in ".。" and pair.source[-2:-1] != "." and shuffle_key("stop\t" + pair.source)[0] in "0123":
        return Pair(pair.source[:-1], pair.target)
    return pair


def exchange_names(pairs: Iterable[Pair], fold: dict[int, str], kinds: Sequence[dict[str, str]]) -> list[Pair]:
    """Return copies of the sentences that contain exactly one name of the kinds, with other names of its kind (chosen by hash)."""
    copies = []
    for pair in pairs:
        source = pair.source.translate(fold)
        # 日本人, 法语 and 印度尼西亚 are not place names.
        names = [(z, e, kind) for kind in kinds for z, e in kind.items() if re.search(f"{z}(?![人语文话式尼])", source)]
        if len(names) != 1 or source.count(names[0][0]) != 1 or len(re.findall(rf"\b{names[0][1]}\b", pair.target)) != 1:
            continue
        chinese, english, kind = names[0]
        for z in sorted((z for z in kind if z != chinese), key=lambda z: shuffle_key(f"{z}\t{source}"))[:VARIANTS]:
            target = re.sub(rf"\b{english}\b", kind[z], pair.target)
            article = r"\1n " if kind[z][0] in "AEIO" else r"\1 "
            copies.append(Pair(source.replace(chinese, z), re.sub(rf"\b([Aa])n? (?={kind[z]}\b)", article, target)))
    return copies


def exchange_objects(pairs: Iterable[Pair], fold: dict[int, str]) -> list[Pair]:
    """Return copies of the sentences that end in a person who is loved, liked or missed, with places instead (chosen by hash)."""
    places = {z: e for kind in PLACES for z, e in kind.items()}
    copies = []
    for pair in pairs:
        chinese = re.fullmatch(
            r"(.*(?:爱|喜欢|想念))(?:你|您|你们|他|她|他们|她们|我|我们|它|汤姆|玛丽|玛莉)([。.!！]?)", pair.source.translate(fold)
        )
        english = re.fullmatch(r"(.*\b(?:lov|lik|miss|ador)(?:e|es|ed|s)?) (?:you|him|her|them|me|us|it|Tom|Mary)([.!])", pair.target)
        if chinese and english:
            for z in sorted(places, key=lambda z: shuffle_key(f"{z}\t{pair.source}"))[:VARIANTS]:
                copies.append(Pair(f"{chinese[1]}{z}{chinese[2]}", f"{english[1]} {places[z]}{english[2]}"))
    return copies


def check(parts: dict[str, list[Pair]], fold: dict[int, str]) -> None:
    """Exit with an error if a held-out sentence is in training, on either side."""
    for side in (0, 1):
        training = {plain(pair[side], fold) for pair in parts["train"]}
        for name, pairs in parts.items():
            shared = {plain(pair[side], fold) for pair in pairs} & training
            if name != "train" and shared:
                sys.exit(f"{name} shares {len(shared)} sentences with training on side {side}, such as {sorted(shared)[0]!r}")


def write(path: Path, pairs: Iterable[Pair]) -> None:
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("direction", choices=["zh-en", "de-en"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    chinese = arguments.direction == "zh-en"
    fold = str.maketrans(folding_table()) if chinese else {}
    tatoeba = read_pairs(arguments.data / ("tatoeba-zh-en/cmn.txt" if chinese else "tatoeba-de-en/deu.txt"), columns=(1, 0))
    captions: dict[str, list[Pair]] = {"train": [], "val": [], "test": []}
    if chinese:
        for part in captions:
            captions[part] = read_pairs([arguments.data / f"3am-zh-en/{part}.{language}" for language in ("zh", "en")])
    banned = {(side, plain(pair[side], fold)) for part in ("val", "test") for pair in captions[part] for side in (0, 1)}
    parts = split(tatoeba, fold, banned)
    held_out = banned | {(side, plain(pair[side], fold)) for part in ("valid", "test") for pair in parts[part] for side in (0, 1)}
    everyday = parts["train"]
    if chinese:

        def allowed(pair: Pair) -> bool:
            return plain(pair.source, fold) != README_SENTENCE and not held_out & {(side, plain(pair[side], fold)) for side in (0, 1)}

        single_names = [Pair(*item) for kind in PLACES for item in kind.items()]
        parts["train"] = list(filter(allowed, everyday + single_names + exchange_names(everyday, fold, PLACES)))
        exchanged = exchange_objects(everyday, fold) + exchange_names(everyday, fold, PEOPLE)
        everyday = parts["train"] + list(filter(allowed, exchanged))
    names = capitals(pair.target for pair in parts["train"])
    new_captions = [pair for pair in captions["train"] if not held_out & {(side, plain(pair[side], fold)) for side in (0, 1)}]
    parts["train"] += [Pair(pair.source, clean_caption(pair.target, names)) for pair in new_captions]
    parts["train"] = shuffled(map(drop_full_stop, parts["train"]))
    check(parts, fold)
    if chinese:
        parts |= {"3am-test": captions["test"], "everyday": shuffled(map(drop_full_stop, everyday))}
        check({"train": parts["everyday"], **{name: parts[name] for name in ("valid", "test", "3am-test")}}, fold)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        write(arguments.out / f"{name}.tsv", pairs)
    print(json.dumps({name: len(pairs) for name, pairs in parts.items()}))


if __name__ == "__main__":
    main()
