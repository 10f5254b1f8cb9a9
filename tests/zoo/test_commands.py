"""The commands with models from the zoo: which one is taken, what is said, and what is never half done."""

import json
import shutil
from pathlib import Path

import pytest
from made_models import bleu, gguf_file, gpt_folder, translator_run
from typer.testing import CliRunner

from regard.cli import build
from regard.zoo.install import add
from regard.zoo.packing import pack


def regard(*words: object, **options):
    return CliRunner().invoke(build(), [str(word) for word in words], env={"NO_COLOR": "1"}, **options)


def squeezed(text: str) -> str:
    """Without the box an error is drawn in."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    for language in ("zh", "de"):
        about = {"about": "A test.", "languages": (language, "en"), "comes_from": "a test"}
        pack(translator_run(folder / f"run-{language}", language), folder / language, about, scores={"made up": bleu(100.0)})
    return folder


@pytest.fixture
def two(packed, home):
    """A translator from Chinese and one from German, better than any that is shipped."""
    home.mkdir(parents=True)
    for language in ("zh", "de"):
        (home / f"test-{language}").symlink_to(packed / language)
    return home


def chosen(result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["model"] for line in result.stdout.splitlines()]


def test_the_letters_of_each_text_choose_its_model(two):
    assert chosen(regard("translate", "我爱书", "--json")) == ["test-zh"]
    assert chosen(regard("translate", "Ich liebe dich", "--json")) == ["test-de"]
    assert chosen(regard("translate", "我爱书", "Hallo", ". .", "你好", "--json")) == ["test-zh", "test-de", "test-de", "test-zh"]
    assert chosen(regard("translate", "--from", "de", "Hallo", "--json")) == ["test-de"]
    assert chosen(regard("translate", "--model", "test-zh", "我", "--json")) == ["test-zh"]


def test_a_translation_stands_above_its_alignment(two):
    result = regard("translate", "我爱书")
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["我", "爱", "书"]
    assert regard("translate", "我爱书", "--no-alignment").stdout.count("\n") == 1
    assert len(json.loads(regard("translate", "我爱书", "--n-best", 2, "--json").stdout)["translations"]) == 2


def test_a_page_is_written(two, tmp_path):
    assert regard("translate", "我爱书", "--html", tmp_path / "a.html").exit_code == 0
    assert "书" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_lines_in_lines_out(two, tmp_path):
    (tmp_path / "in.txt").write_text("我爱书\n\n你好\nПривет\n", encoding="utf-8")
    result = regard("translate", "--from", "zh", "--file", tmp_path / "in.txt")
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert [bool(line) for line in lines[:4]] == [bool(lines[0]), False, bool(lines[2]), False]
    assert len(lines) == 5
    assert "line 4: most of the text is in characters the model never saw" in result.stderr
    assert "test-zh reads Chinese; left blank" in result.stderr
    same = regard("translate", "--from", "zh", input="我爱书\n\n你好\nПривет\n")
    assert same.stdout == result.stdout
    alone = regard("translate", "--from", "zh", input="Привет\n")
    assert alone.exit_code == 1


def test_a_long_text_is_translated_by_the_sentence_and_says_so(two):
    text = "我爱中国。" * 2000
    result = regard("translate", text, "--beam", 1)
    assert result.exit_code == 0
    assert "10,000 characters are more than the 20 tokens the model reads at once: sentence by sentence" in result.stderr
    assert result.stdout.count("\n") == 1
    one = regard("translate", "我爱中国。", "--beam", 1, "--no-alignment").stdout.strip()
    assert result.stdout.strip() == " ".join([one] * 2000).strip()
    page = regard("translate", text, "--html", "/nowhere/a.html", "--beam", 1)
    assert page.exit_code == 2
    assert "there is no alignment to draw" in squeezed(page.output)


def test_characters_it_never_saw_are_named(two):
    result = regard("translate", "我爱龘国")
    assert result.exit_code == 0
    assert "read as unknown, since the model never saw them: 龘" in result.stderr
    assert "test-zh reads Chinese, and this does not look like it: expect nonsense" in regard("translate", "Tom", "-m", "test-zh").stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", ""], "the text is empty"),
        (["translate", "我", " "], "text 2: the text is empty"),
        (["translate", "12:30"], "has no letters to tell its language by"),
        (["translate", "Привет"], "is in Cyrillic letters; the shipped models translate from Chinese and German"),
        (["translate", "龘龘龘"], "most of the text is in characters the model never saw (龘); test-zh reads Chinese"),
        (["translate", "--from", "fr", "Bonjour"], "there is no model that translates from 'fr'"),
        (["translate", "--from", "de", "-m", "test-zh", "Hallo"], "leave --from out"),
        (["translate", "-m", "shakespeare", "Hallo"], "is a run of 'lm', not 'translation'"),
        (["translate", "-m", "zh-en-nothing", "我"], "there is no model 'zh-en-nothing'"),
        (["translate", "a\udcffb"], "the text is not UTF-8 (byte 0xff at character 2)"),
        (["generate", " "], "the text is empty"),
        (["generate", "我爱中国"], "most of the prompt is in characters the model never saw"),
        (["generate", "x", "-m", "reader"], "reader is not a language model"),
        (["look", "shakespeare", "--text", ""], "the text is empty"),
        (["look", "reader", "--text", "Where is Mary?"], "give at least two sentences"),
    ],
)
def test_bad_input_is_refused_with_a_reason(two, words, message):
    result = regard(*words)
    assert result.exit_code == 2
    assert message in squeezed(result.output)
    assert not result.stdout
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", [["translate", "--file"], ["read", "--ask", "Where?"], ["look", "shakespeare", "--file"]])
def test_a_byte_that_is_not_utf8_is_named_with_file_line_and_place(tmp_path, two, command):
    file = tmp_path / "bad.txt"
    file.write_bytes("gut\nsch\xf6n\n".encode("latin-1"))
    result = regard(*command, file)
    assert result.exit_code == 2
    said = "bad.txt:2: byte 0xf6 is not UTF-8 (byte 4 of the line)"
    assert said.replace(" ", "") in squeezed(result.output).replace(" ", "")  # a long path breaks the line anywhere


def test_the_same_on_standard_input(two):
    assert "standard input:1: byte 0xff is not UTF-8" in squeezed(regard("translate", input=b"\xff\n").output)
    assert "standard input is empty" in squeezed(regard("translate", input=b"").output)


@pytest.mark.parametrize("file", ["model.safetensors", "source.vocabulary.json", "run.json"])
def test_a_tampered_model_translates_nothing(home, packed, tmp_path, file):
    shutil.copytree(packed / "zh", home / "zh")
    data = bytearray((home / "zh" / file).read_bytes())
    data[len(data) // 2] ^= 1
    (home / "zh" / file).write_bytes(bytes(data))
    page = tmp_path / "a.html"
    result = regard("translate", "我爱书", "-m", "zh", "--html", page)
    assert result.exit_code == 2
    assert "is damaged or was changed" in squeezed(result.output)
    assert "regard models remove zh" in squeezed(result.output)
    assert not result.stdout
    assert not page.exists()


def test_models_are_listed_shown_added_and_removed(home, tmp_path):
    listed = regard("models").stdout
    assert ["shakespeare", "lm"] in [line.split()[:2] for line in listed.splitlines()]
    assert "none added yet" in listed
    result = regard("models", "add", gpt_folder(tmp_path / "letters"))
    assert result.exit_code == 0
    assert f"letters added: 0 MB in {home / 'letters'}" in result.stdout
    assert "regard generate" in result.stdout
    data = {item["name"]: item for item in json.loads(regard("models", "--json").stdout)}
    assert data["letters"]["origin"] == "added"
    assert data["shakespeare"]["origin"] == "shipped"
    assert data["letters"]["bytes"] > 1000
    assert "# letters" in regard("models", "show", "letters").stdout
    assert regard("generate", "abc", "-m", "letters", "--max-new", 2).stdout.startswith("abc")
    assert regard("models", "remove", "letters").exit_code == 0
    assert regard("models", "remove", "letters").exit_code == 2
    assert "none added yet" in regard("models").stdout


def test_a_damaged_card_is_listed_as_such(home, tmp_path):
    add(gpt_folder(tmp_path / "letters"))
    (home / "letters" / "card.json").write_text("{")
    assert "its card is damaged" in regard("models").stdout
    assert "damaged" in {item["name"]: item for item in json.loads(regard("models", "--json").stdout)}["letters"]["trouble"]


def test_looking_at_a_gguf_file_and_at_a_translator(two, tmp_path):
    result = regard("look", gguf_file(tmp_path / "small.gguf"), "--text", "hello 12", "--no-labels")
    assert result.exit_code == 0, result.output
    assert "small: 1 layers × 4 heads, 6 × 6 tokens" in result.stdout
    assert "test-zh" in regard("look", "test-zh", "--text", "我爱书", "--no-labels").stdout


def test_a_long_prompt_says_how_much_is_read():
    result = regard("generate", "a " * 5000, "--max-new", 3)
    assert result.exit_code == 0
    assert "the prompt has 10,000 tokens; the model looks back on the last 64" in result.stderr
