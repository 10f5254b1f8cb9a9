import itertools
import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import BOS, EOS, MASK, PAD, UNK, Vocabulary, Word

LINES = ["The dog, the cat and the bird.", "A dog sat; a cat ran.", "Birds sing (loudly) in May."] * 4


def test_special_tokens_have_their_fixed_ids():
    v = Vocabulary.train(LINES, kind="word")
    assert [v.piece(i) for i in (PAD, BOS, EOS, UNK, MASK)] == ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_known_text_comes_back_and_survives_a_file(kind, tmp_path):
    v = Vocabulary.train(LINES, kind=kind, size=120)
    again = (v.save(tmp_path / "v.json"), Vocabulary.load(tmp_path / "v.json"))[1]
    for line in LINES:
        assert v.decode(v.encode(line)) == line
        assert again.encode(line) == v.encode(line)
    assert len(again) == len(v)
    assert again.kind == kind


def test_a_saved_vocabulary_leaves_no_draft_behind(tmp_path):
    Vocabulary.train(LINES, kind="word").save(tmp_path / "v.json")
    assert [p.name for p in tmp_path.iterdir()] == ["v.json"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_twice_gives_the_same_vocabulary(kind):
    random = Random(0)  # words of unlike frequencies, as in any language
    stems = ["".join(random.choices("aeioubdgklmnprst", k=random.randint(2, 5))) for _ in range(60)]
    lines = [" ".join(stems[int(60 * random.random() ** 3)] + random.choice(["", "s", "ing"]) for _ in range(9)) for _ in range(300)]
    assert Vocabulary.train(lines, kind=kind, size=90).to_json() == Vocabulary.train(lines, kind=kind, size=90).to_json()


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abc XY,.äß中国\n\t", max_size=40))
def test_characters_give_back_any_text_of_known_characters(text):
    v = Vocabulary.train(["abc XY,.äß中国\n\t"], kind="char")
    assert v.decode(v.encode(text)) == text.strip(" ")


def test_a_vocabulary_of_words_knows_the_letters_of_its_words():
    """`regard translate` refuses a text that is mostly unknown; the letters of a known word are not, though none is a word by itself."""
    vocabulary = Vocabulary.train(["eins zwei drei", "zwei drei."], kind="word")
    assert vocabulary.unknown_characters("drei zwei eins.") == ([], 0.0)
    assert vocabulary.unknown_characters("zwei acht") == (["a", "c", "h", "t"], 0.5)
    assert vocabulary.unknown_characters("acht") == (["a", "c", "h", "t"], 1.0)


def test_unknown_characters_become_unk_and_leave_no_trace():
    v = Vocabulary.train(["abc"], kind="char")
    assert v.encode("aZb") == [v.encode("a")[0], UNK, v.encode("b")[0]]
    assert v.decode(v.encode("aZb")) == "ab"


def test_lowercase_is_part_of_the_vocabulary():
    v = Vocabulary.train(["Das Haus"], kind="word", lowercase=True)
    assert v.decode(v.encode("DAS haus")) == "das haus"


def test_traditional_characters_fold_into_the_simplified_ones_it_knows(tmp_path):
    pytest.importorskip("opencc", reason='folding needs opencc: pip install "regard[chinese]"')
    v = Vocabulary.train(["我爱中国"], kind="char", simplify=True)
    assert v.encode("我愛中國") == v.encode("我爱中国")
    assert UNK not in v.encode("我愛中國")
    v.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json").encode("愛") == v.encode("爱")
    # Only what leads to a known character is carried: 漢 → 汉 would lead nowhere.
    assert "漢" not in v.fold
    assert set(v.fold.values()) <= set("我爱中国")


def test_words_join_pieces_and_keep_punctuation_and_chinese_apart():
    v = Vocabulary.train(["lower, lowest 我爱中国。"], kind="char")
    ids = v.encode("lower, 我爱。")
    words = v.words(ids)
    assert [w.text for w in words] == ["lower", ",", "我", "爱", "。"]
    assert words[0] == Word("lower", 0, 5)
    assert words[-1].stop == len(ids)
    assert all(a.stop == b.start for a, b in itertools.pairwise(words))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_of_subwords_read_like_the_text(kind):
    v = Vocabulary.train(LINES, kind=kind, size=60)
    assert [w.text for w in v.words(v.encode("The dog, ran."))] == ["The", "dog", ",", "ran", "."]


def test_a_wrong_kind_and_a_foreign_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match="kind is 'bpee'; expected one of bpe"):
        Vocabulary.train(LINES, kind="bpee")
    with pytest.raises(ValueError, match="size is 3"):
        Vocabulary.train(LINES, size=3)
    (tmp_path / "x.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(ValueError, match=r"x\.json.*not a regard vocabulary"):
        Vocabulary.load(tmp_path / "x.json")


def test_a_mixed_vocabulary_has_chinese_characters_and_pieces_of_the_rest():
    lines = ["今天天气很好。", "The cat sat on the mat.", "the cats sat。我爱 Python 你。"] * 3
    v = Vocabulary.train(lines, kind="mixed", size=200, lowercase=True)
    assert [v.piece(i) for i in v.encode("今天 the cat")] == ["▁", "今", "天", "▁the", "▁cat"]
    assert v.decode(v.encode("今天天气很好。")) == "今天天气很好。"
    # A mask is encoded like the token it stands for: with its space, and without changing what is around it.
    whole, masked = v.encode("The cat sat on the mat."), v.encode("The cat <mask> on the mat.")
    assert [a for a, b in zip(whole, masked, strict=True) if a != b] == v.encode("sat")
    chinese, hidden = v.encode("今天天气很好。"), v.encode("今天天气很<mask>。")
    assert [b for a, b in zip(chinese, hidden, strict=True) if a != b] == [MASK]
    assert Vocabulary.from_json(v.to_json()).encode("The cat <mask> on") == v.encode("The cat <mask> on")
    rare = Vocabulary.train([*lines, "龘"], kind="mixed", size=200, min_count=3)
    assert UNK in rare.encode("龘")
