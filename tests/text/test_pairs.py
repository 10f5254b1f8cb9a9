import pytest

from regard.text import Pair, read_lines, read_pairs


def test_tsv_takes_the_columns_asked_for_and_skips_blank_lines(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("Hi.\t嗨。\tCC-BY\n\nBye.\t再见。\tCC-BY\r\n", encoding="utf-8")
    assert read_pairs(file) == [Pair("Hi.", "嗨。"), Pair("Bye.", "再见。")]
    assert read_pairs(file, columns=(1, 0))[1] == Pair("再见。", "Bye.")


def test_two_files_are_read_side_by_side(tmp_path):
    (tmp_path / "x.de").write_text("ein\u2028Hund\nzwei\n", encoding="utf-8")  # a line separator inside a line must not split it
    (tmp_path / "x.en").write_text("one dog\ntwo\n")
    assert read_pairs([tmp_path / "x.de", tmp_path / "x.en"]) == [Pair("ein\u2028Hund", "one dog"), Pair("zwei", "two")]


def test_jsonl_takes_the_keys_asked_for(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"question": "2+2?", "answer": "4"}\n')
    assert read_pairs(file, keys=("question", "answer")) == [Pair("2+2?", "4")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "one\ttwo\nthree\n", r"a\.tsv:2: 1 tab-separated column"),
        ("a.tsv", "one\ttwo\nthree\t \n", r"a\.tsv:2: the target is empty"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": \n', r"a\.jsonl:2: not JSON"),
        ("a.jsonl", '{"src": "a", "target": "b"}\n', r"a\.jsonl:1: no text under 'source' \(keys: 'src', 'target'\)"),
        ("a.jsonl", "[1]\n", r"a\.jsonl:1: a list; expected an object"),
        ("a.tsv", "\n\n", r"a\.tsv: it has no pairs"),
    ],
)
def test_errors_name_the_file_and_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / name)


def test_parallel_files_of_different_lengths_are_refused(tmp_path):
    (tmp_path / "a").write_text("x\ny\n")
    (tmp_path / "b").write_text("x\n")
    with pytest.raises(ValueError, match=r"has 2 lines but .* has 1"):
        read_pairs([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="3 files were given"):
        read_pairs([tmp_path / "a"] * 3)


def test_bytes_that_are_not_utf8_are_located(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"a\tb\nc\t\xff\n")
    with pytest.raises(ValueError, match=r"a\.tsv:2: byte 0xff is not UTF-8"):
        read_lines(tmp_path / "a.tsv")


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfhello\n")
    assert read_lines(tmp_path / "a.txt") == ["hello"]
