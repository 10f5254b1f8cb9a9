"""`regard translate`: which model is used, what is printed, and what is an error."""

import json
import os
import shutil
import signal

import pytest
from command_line import regard, without_box
from pairs_of import config, reversal

from regard import zoo
from regard.text.vocabulary import EOS
from regard.training.loop import checkpoints
from regard.training.runs import train


def test_a_translation_is_shown_with_its_alignment_in_plain_characters(reversal_run):
    result = regard("translate", "a b c d", "--model", reversal_run)
    lines = result.stdout.splitlines()
    assert lines[0] == "d c b a"
    assert lines[1].split() == ["a", "b", "c", "d", "largest", "weight"]
    assert [line.split()[0] for line in lines[2:6]] == ["d", "c", "b", "a"]
    assert [line.split()[-1] for line in lines[2:6]] == ["d", "c", "b", "a"]
    assert "weight 0 .:-=+*#%@ 1 (linear); down: translation, across: source" in lines[6]
    assert result.output.isascii()


def test_the_alignment_can_be_written_as_a_page(reversal_run, tmp_path):
    page = tmp_path / "page.html"
    result = regard("translate", "a b c d", "--model", reversal_run, "--html", page)
    assert result.exit_code == 0, result.output
    assert "d c b a" in page.read_text(encoding="utf-8")
    result = regard("translate", "a b", "c d", "--model", reversal_run, "--html", tmp_path / "two.html")
    assert result.exit_code != 0
    assert "a page shows one translation" in without_box(result.output)
    assert not (tmp_path / "two.html").exists()


def test_json_holds_the_translations_and_their_alignments(reversal_run):
    result = regard("translate", "a b c d", "b a", "--model", reversal_run, "--n-best", 2, "--json")
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["source"] == "a b c d"
    assert first["translations"][0]["text"] == "d c b a"
    assert first["translations"][0]["score"] >= first["translations"][1]["score"]
    weights = first["translations"][0]["alignment"]
    assert [len(row) for row in weights] == [4] * 4
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in weights)
    assert second["translations"][0]["target_words"] == ["a", "b"]


def test_a_file_and_standard_input_are_translated_line_by_line(reversal_run, tmp_path):
    (tmp_path / "in.txt").write_text("a b\nc d e\n")
    assert regard("translate", "--file", tmp_path / "in.txt", "--model", reversal_run).output == "b a\ne d c\n"
    assert regard("translate", "--model", reversal_run, "--beam", 1, input="a b\n").output == "b a\n"


def test_sampling_is_repeatable(reversal_run):
    draws = [regard("translate", "a b c d e f", "--model", reversal_run, "--temperature", 1.5, "--seed", 3).output for _ in range(2)]
    assert draws[0] == draws[1]


def models_used(result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["model"] for line in result.stdout.splitlines()]


def test_the_letters_of_each_text_choose_its_model(two_translators):
    assert models_used(regard("translate", "我爱书", "--json")) == ["test-zh"]
    assert models_used(regard("translate", "Ich liebe dich", "--json")) == ["test-de"]
    assert models_used(regard("translate", "我爱书", "Hallo", ". .", "你好", "--json")) == ["test-zh", "test-de", "test-de", "test-zh"]
    assert models_used(regard("translate", "--from", "de", "Hallo", "--json")) == ["test-de"]
    assert models_used(regard("translate", "--model", "test-zh", "我", "--json")) == ["test-zh"]


def test_a_translation_stands_above_its_alignment(two_translators):
    result = regard("translate", "我爱书")
    lines = result.stdout.splitlines()
    assert lines[1].split()[:3] == ["我", "爱", "书"]
    assert [line.split()[0] for line in lines[2:-1]] == lines[0].split()
    assert lines[-1].endswith("down: translation, across: source")
    assert regard("translate", "我爱书", "--no-alignment").stdout.count("\n") == 1
    assert len(json.loads(regard("translate", "我爱书", "--n-best", 2, "--json").stdout)["translations"]) == 2


def test_a_page_is_written(two_translators, tmp_path):
    assert regard("translate", "我爱书", "--html", tmp_path / "a.html").exit_code == 0
    assert "书" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_lines_in_lines_out(two_translators, tmp_path):
    (tmp_path / "in.txt").write_text("我爱书\n\n你好\nПривет\n", encoding="utf-8")
    result = regard("translate", "--from", "zh", "--file", tmp_path / "in.txt")
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert [bool(line) for line in lines[:4]] == [bool(lines[0]), False, bool(lines[2]), False]
    assert len(lines) == 5
    assert "line 4: most of the text is in characters outside the model's vocabulary" in result.stderr
    assert "test-zh reads Chinese; left blank" in result.stderr
    same = regard("translate", "--from", "zh", input="我爱书\n\n你好\nПривет\n")
    assert same.stdout == result.stdout
    all_unknown = regard("translate", "--from", "zh", input="Привет\n")
    assert all_unknown.exit_code == 1


def test_a_long_text_is_translated_by_the_sentence_and_says_so(two_translators):
    text = "我爱中国。" * 2000
    result = regard("translate", text, "--beam", 1)
    assert result.exit_code == 0
    assert "10,000 characters do not fit the model's 20 tokens: translated sentence by sentence" in result.stderr
    assert result.stdout.count("\n") == 1
    one = regard("translate", "我爱中国。", "--beam", 1, "--no-alignment").stdout.strip()
    assert result.stdout.strip() == " ".join([one] * 2000).strip()
    page = regard("translate", text, "--html", "/nowhere/a.html", "--beam", 1)
    assert page.exit_code == 2
    assert "there is no alignment to draw" in without_box(page.output)


def test_unknown_characters_are_listed(two_translators):
    result = regard("translate", "我爱龘国")
    assert result.exit_code == 0
    assert "not in the model's vocabulary, read as unknown: 龘" in result.stderr


def test_a_text_in_another_language_is_translated_with_a_warning(two_translators):
    assert "the text does not look like Chinese, which test-zh reads" in regard("translate", "Tom", "-m", "test-zh").stderr
    assert "the text may be English rather than German" in regard("translate", "hello").stderr
    assert "the text appears to be English, not German, which test-de reads" in regard("translate", "The cat sat on the mat.").stderr
    assert "nonsense" not in regard("translate", "Die Katze sitzt auf der Matte.").stderr


def test_a_file_given_as_text_asks_for_the_option(two_translators, tmp_path):
    (tmp_path / "in.txt").write_text("Hallo\n")
    result = regard("translate", tmp_path / "in.txt")
    assert result.exit_code == 2
    assert f"is a file; to translate its lines: regard translate -f {tmp_path / 'in.txt'}" in without_box(result.output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", ""], "the text is empty"),
        (["translate", "我", " "], "text 2: the text is empty"),
        (["translate", "12:30"], "has no letters to detect its language from"),
        (["translate", "Привет"], "is in Cyrillic letters; the shipped models translate from Chinese and German"),
        (["translate", "龘龘龘"], "most of the text is in characters outside the model's vocabulary (龘); test-zh reads Chinese"),
        (["translate", "--from", "fr", "Bonjour"], "there is no model that translates from 'fr'"),
        (["translate", "--from", "de", "-m", "test-zh", "Hallo"], "leave --from out"),
        (["translate", "-m", "shakespeare", "Hallo"], "is a run of 'lm', not 'translation'"),
        (["translate", "-m", "zh-en-nothing", "我"], "there is no model 'zh-en-nothing'"),
        (["translate", "a\udcffb"], "the text is not UTF-8 (byte 0xff at character 2)"),
        (["translate", "hallo", "--model", "nowhere"], "there is no model 'nowhere' and no such path"),
        (["translate", "hallo", "--model", "."], "it has no run.json"),
    ],
)
def test_bad_input_is_an_error(two_translators, words, message):
    result = regard(*words)
    assert result.exit_code == 2
    assert message in without_box(result.output)
    assert not result.stdout
    assert "Traceback" not in result.output


def test_standard_input_is_checked(two_translators):
    assert "standard input:1: byte 0xff is not UTF-8" in without_box(regard("translate", input=b"\xff\n").output)
    assert "standard input is empty" in without_box(regard("translate", input=b"").output)


@pytest.mark.parametrize("file", ["model.safetensors", "source.vocabulary.json", "run.json"])
def test_a_tampered_model_translates_nothing(home, packed, tmp_path, file):
    shutil.copytree(packed / "zh", home / "zh")
    data = bytearray((home / "zh" / file).read_bytes())
    data[len(data) // 2] ^= 1
    (home / "zh" / file).write_bytes(bytes(data))
    page = tmp_path / "a.html"
    result = regard("translate", "我爱书", "-m", "zh", "--html", page)
    assert result.exit_code == 2
    assert "is damaged or was changed" in without_box(result.output)
    assert "regard models remove zh" in without_box(result.output)
    assert not result.stdout
    assert not page.exists()


def test_warns_about_texts_unlike_those_the_model_was_tested_on():
    usual = regard("translate", "我爱中国。", "-m", "zh-en-fixed", "--beam", "1")
    assert "probably wrong" not in usual.stderr
    long = "国家电网公司首席执行官在新闻发布会上宣布了一项针对可再生能源基础设施的重大投资计划。"
    result = regard("translate", long, "-m", "zh-en-fixed", "--beam", "1")
    assert "a sentence has 42 tokens" in result.stderr
    assert "the translation is probably wrong" in result.stderr
    rare = regard("translate", "饕餮纹青铜鼎。", "-m", "zh-en-fixed", "--beam", "1")
    assert "rare or unknown in the model's training data" in rare.stderr


def test_a_run_that_was_not_evaluated_yet_says_so(tmp_path):
    """A training stopped before its first evaluation often translates to nothing; that is said, not printed as an empty line alone."""
    reversal(tmp_path, train=60, valid=5, longest=6)
    path = config(tmp_path, "steps = 500\nevaluate_every = 500", model="embedding = 8\nstate = 12")

    def interrupt(progress):
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    state, folder = train("translation", path, watch=interrupt)
    assert 3 <= state.step < 10
    assert not (folder / "best.safetensors").exists()
    told = rf"run was trained for {state.step} steps only and not evaluated yet: its results may be empty"
    with pytest.warns(UserWarning, match=told):
        zoo.open(folder)
    with pytest.warns(UserWarning, match=told):
        assert regard("translate", "a b", "--model", folder).exit_code == 0


def test_an_empty_translation_is_not_printed_in_silence(reversal_run, tmp_path):
    """The weights are changed so that every sentence ends at once."""
    run = shutil.copytree(reversal_run, tmp_path / "silent")
    tensors, note = checkpoints.read(run / "best.safetensors")
    tensors["readout.logits.bias"][EOS] = 1000.0
    checkpoints.write(run / "best.safetensors", tensors, note)
    result = regard("translate", "a b", "--model", run)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == ""
    assert "the translation is empty: silent ended it without a word" in result.stderr
    result = regard("translate", "--model", run, input="a b\n\n")
    assert result.stdout == "\n\n"
    assert result.stderr.splitlines() == ["line 1: the translation is empty: silent ended it without a word"]
