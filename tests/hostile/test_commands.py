"""Every command with hostile arguments and files: the right exit code, one sentence, no traceback. Through `main()`, and in a real shell.

`LINES` holds lines that work, for every command; each test changes one thing about them, so that a failure has one cause.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from regard import cli
from regard.cli.boundary import BUG, FAILED, USAGE
from regard.training.runs import train

SAVED = Path(__file__).parent.parent / "saved" / "files" / "training"
# {model=…} and {file=…} are what the tests replace.
LINES = """
demo fluffy
look {model=shakespeare} --file {file=story.txt} --no-baseline --no-labels
translate --file {file=german.txt} --model {model=saved/translation-fixed} --beam 1
generate a --max-new 2 --model {model=shakespeare}
generate a --prefixes --model {model=shakespeare}
read {file=story.txt} --ask "Where is Mary?" --model {model=article-reader} --no-compare
read {file=story.txt} --ask "Where is Mary?" --model {model=reader}
answer "Where is Mary?" --context {file=story.txt} --model {model=article-reader}
answer "tool 3" --model {model=summariser}
summarise "tool 3 makes files" --model {model=summariser}
summarise --lines {file=story.txt} --model {model=summariser}
fill "a [MASK]" --model {model=saved/mlm}
classify --file {file=story.txt} --model {model=saved/classify}
train lm {file=lm.toml} --quiet
evaluate translation {model=saved/translation-fixed} --test {file=letters.tsv} --beam 1
evaluate summarise {model=summariser} --test {file=letters.tsv}
evaluate lm {model=shakespeare} --test {file=story.txt}
evaluate mlm {model=saved/mlm} --test {file=story.txt}
evaluate classify {model=saved/classify} --test {file=topics.tsv}
evaluate reader {model=reader} --test {file=babi.txt}
evaluate article {model=article-reader} --test {file=questions.json}
evaluate alignment {model=zh-en-bahdanau} --test {file=links.tsv}
probe {model=saved/mlm} {file=topics.tsv}
fit {file=good.csv} --target y
studio --no-open
doctor
plan show {file=model.json}
plan compare gpt2 {file=model.json}
plan measure --seconds 1 --sizes 16,32,64 --heads 1 --head-dim 8
plan list
models
models show {model=shakespeare}
models add {model=saved/lm}
models remove lm
""".strip().splitlines()
NOT_RUN = {"studio --no-open"}  # it serves until it is stopped: tests/cli/test_studio.py
BAD_NUMBERS = ["nan", "inf", "1e400", "-1", "x", "", "0x10", "1_0_", str(10**30), "9" * 5000]
HOSTILE_MODELS = [
    "nothing", "", ".", "..", "/", "folder", "damaged", "binary", "broken.gguf", "empty.gguf", "a\0b", "a" * 5000, "~nobody/x",
    "\udcff", "-x",
]  # fmt: skip
HOSTILE_FILES = ["nothing", "", "folder", "empty.txt", "blank.txt", "binary", "a\0b", "a" * 5000]
WORD = "Donaudampfschifffahrtsgesellschaft" * 90  # 3,060 letters
# Arguments that once ended in a traceback, a hang or a kill, and others like them; the code they must exit with.
CASES: list[tuple[list[str], int]] = [
    (["translate", "Hallo", "--beam", "1000000"], 2),
    (["translate", "Hallo", "--n-best", "1000000"], 2),
    (["translate", "Hallo", "--temperature", "1e-320", "--no-alignment"], 0),
    (["translate", WORD, "--beam", "1"], 0),
    (["translate", "\udcff"], 2),
    (["translate", ""], 2),
    (["translate", "\0"], 2),
    (["translate"], 2),  # standard input is empty
    (["translate", "Hallo", "--from", "xx"], 2),
    (["translate", "Hallo", "--file", "story.txt"], 2),
    (["translate", "Hallo", "--model", "shakespeare"], 2),  # not a translator
    (["translate", "🦊🦊", "--model", "zh-en-fixed"], 2),  # nothing that it can read
    (["translate", "--file", "foxes.txt", "--model", "zh-en-fixed"], 1),  # lines of a file: each is left blank, and nothing came out
    (["evaluate", "nothing", "shakespeare", "--test", "story.txt"], 2),
    (["evaluate", "lm", "shakespeare"], 2),
    (["evaluate", "lm", "zh-en-fixed", "--test", "story.txt"], 2),
    (["evaluate", "translation", "zh-en-bahdanau", "--test", "letters.tsv", "--test", "topics.tsv"], 2),  # lines that do not fit
    (["evaluate", "alignment", "zh-en-bahdanau", "--train", "empty.txt"], 2),
    (["evaluate", "translation", "zh-en-fixed", "--test", "letters.tsv", "--figure", "x.gif"], 2),
    (["generate", "\0"], 2),
    (["generate", "-"], 2),
    (["generate", "a", "--chat"], 2),
    (["generate", "a", "--chat", "--prefixes"], 2),
    (["generate", "a", "--model", "zh-en-fixed"], 2),
    (["generate", "a", "--top-p", "0"], 2),
    (["generate", "中文字", "--model", "shakespeare"], 2),
    (["read", "story.txt"], 2),
    (["read", "story.txt", "--ask", ""], 2),
    (["read", "story.txt", "--ask", "\udcff"], 2),
    (["read", "story.txt", "--ask", "x", "--skim", "zzz"], 2),
    (["read", "story.txt", "--ask", "x", "--skim", "minilm"], 2),  # not installed
    (["read", "story.txt", "--ask", "x", "--model", "shakespeare"], 2),
    (["read", "story.txt", "--ask", "x", "--model", "reader", "--picks", "3"], 2),
    (["answer", ""], 2),
    (["answer", "?"], 2),
    (["answer", "-"], 2),
    (["answer", "Why?"], 2),  # no model is installed that could
    (["answer", "Why?", "--model", "shakespeare"], 2),
    (["summarise"], 2),
    (["summarise", "a", "--lines", "story.txt"], 2),
    (["summarise", "a", "--model", "shakespeare"], 2),
    (["summarise", "folder", "--model", "summariser"], 0),  # a text of one word
    (["fill", "a [MASK]"], 0),
    (["fill", "no mask", "--model", "saved/mlm"], 2),
    (["fill", "[MASK]", "--model", "shakespeare"], 2),
    (["fill", "[MASK]" * 5000, "--model", "saved/mlm"], 2),
    (["fill", "-", "--model", "saved/mlm"], 2),
    (["classify", "a"], 2),
    (["classify", "--model", "saved/classify"], 2),
    (["classify", "a", "--model", "saved/mlm"], 2),
    (["classify", "a", "--file", "story.txt", "--model", "saved/classify"], 2),
    (["probe", "shakespeare", "topics.tsv"], 2),
    (["probe", "saved/mlm", "story.txt"], 2),
    (["probe", "saved/mlm", "topics.tsv", "--columns", "5", "9"], 2),
    (["probe", "saved/mlm", "topics.tsv", "--columns", "-1", "-2"], 2),
    (["probe", "saved/mlm", "topics.tsv", "--columns", str(10**30), "0"], 2),
    (["probe", "saved/mlm", "topics.tsv", "--against", "nothing"], 2),
    (["probe", "saved/mlm", "topics.tsv", "--figure", "x.gif"], 2),
    (["look", "shakespeare"], 2),
    (["look", "shakespeare", "--text", ""], 2),
    (["look", "shakespeare", "--text", "abc", "--head", "99.99"], 2),
    (["look", "shakespeare", "--text", "abc", "--head", f"{10**30}.0"], 2),
    (["look", "shakespeare", "--text", "abc", "--head", "²."], 2),
    (["look", "shakespeare", "--text", "abc", "--head", "².0"], 2),
    (["look", "shakespeare", "--text", "abc", "--kernel", "zzz"], 2),
    (["look", "shakespeare", "--text", "abc", "--out", "x.gif"], 2),
    (["look", "zh-en-fixed", "--text", "我"], 1),  # it has no attention
    (["plan", "layers.json"], 2),
    (["plan", "nested.json"], 2),
    (["plan", "deep.json"], 2),
    (["plan", "own.json"], 2),
    (["plan", "twice.json"], 2),
    (["plan", "gpt3", "--context", "0", "--no-roofline"], 0),
    (["plan", "--context", "0"], 2),
    (["plan", "gpt3", "--context", "0x10"], 2),
    (["plan", "gpt3", "--dtype", "zzz"], 2),
    (["plan", "gpt3", "--peak-tflops", "0", "--bandwidth", "0"], 2),
    (["plan", "gpt3", "--ranks", "1000000", "--link", "1", "--peak-tflops", "1", "--bandwidth", "1"], 2),
    (["plan", "measure", "--sizes", "1,2,10000000000", "--seconds", "1"], 1),  # memory
    (["plan", "measure", "--sizes", "1,2"], 2),
    (["plan", "measure", "--sizes", f"1,2,{10**30}"], 2),
    (["plan", "measure", "--sizes", "1,2," + "9" * 5000], 2),
    (["plan", "compare", "gpt3", "layers.json"], 2),
    (["fit", "good.csv", "--target", "nothing"], 2),
    (["fit", "good.csv", "--target", "y", "--width", "nan"], 2),
    (["fit", "good.csv", "--target", "y", "--width", "-1"], 2),
    (["fit", "good.csv", "--target", "y", "--width", "1,2,3"], 2),
    (["fit", "good.csv", "--target", "y", "--bandwidth", "nan"], 2),
    (["fit", "good.csv", "--target", "y", "--bandwidth", "1e-400"], 2),
    (["fit", "good.csv", "--target", "y", "--kernel", "zzz"], 2),
    (["fit", "good.csv", "--target", "y", "--features", "y"], 2),
    (["fit", "good.csv", "--target", "y", "--out", "x.gif"], 2),
    (["train", "lm"], 2),
    (["train", "nothing", "story.txt"], 2),
    (["train", "nothing", "--example"], 2),
    (["train", "translation", "deep.toml"], 2),
    (["train", "translation", "binary"], 2),
    (["train", "lm", "huge.toml"], 2),
    (["train", "lm", "lost.toml"], 2),  # its data is not there
    (["train", "translation", "lm.toml"], 2),
    (["models", "add", "saved/lm", "--name", "../x"], 2),
    (["models", "add", "saved/lm", "--name", ""], 2),
    (["models", "add", "saved/lm", "--name", "a" * 5000], 2),
    (["models", "add", "saved/lm", "--name", "a\0b"], 2),
    (["models", "remove", "../.."], 2),
    (["models", "remove", "shakespeare"], 2),
    (["demo", "nothing"], 2),
    (["demo", "fluffy", "--zzz"], 2),
    (["demo", "fluffy", "--save", "x.gif"], 2),
    (["demo", "\0"], 2),
    (["studio", "--no-open", "--model", "folder"], 2),
    (["studio", "--no-open", "--model", "damaged.json"], 2),
    (["studio", "--no-open", "--run", "folder"], 2),
    (["studio", "--no-open", "--run", "a\0b"], 2),
    (["nothing"], 2),
    (["--zzz"], 2),
    (["\0"], 2),
    ([], 2),
]
QUESTION = {
    "context": "Mary is in the kitchen. It is red.",
    "qas": [{"question": "Where is Mary?", "answers": [{"text": "kitchen", "answer_start": 15}]}],
}


@pytest.fixture(scope="module")
def summariser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `regard train summarise`, of two steps."""
    folder = tmp_path_factory.mktemp("summariser")
    (folder / "pairs.tsv").write_text("".join(f"tool {i} makes Xylo{i} files\tXylo{i} files\n" for i in range(40)))
    (folder / "c.toml").write_text(
        'out = "run"\n[data]\ntrain = "pairs.tsv"\n[source]\nsize = 90\n[target]\nkind = "shared"\n[model]\nkind = "bahdanau"\n'
        'embedding = 8\nstate = 16\nquery = "current"\ncopy = true\n[decoding]\nmax_length = 8\n[training]\nsteps = 2\nevaluate_every = 2\n'
    )
    train("summarise", folder / "c.toml")
    return folder / "run"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, summariser: Path) -> Path:
    """The folder the commands run in: files that are what they should be, and files that are not."""
    for name, link in (("saved", SAVED), ("summariser", summariser)):
        (tmp_path / name).symlink_to(link)
    texts = {
        "story.txt": "Mary went to the kitchen.\n",
        "german.txt": "c a d\n",
        "letters.tsv": "c a d\td a c\n",
        "babi.txt": "1 Mary went to the kitchen.\n2 Where is Mary? \tkitchen\t1\n",
        "topics.tsv": "".join(f"we had tea {i}\tfood\nthe bus is late {i}\ttravel\n" for i in range(12)),
        "good.csv": "x,y\n" + "".join(f"{i},{i * i}\n" for i in range(20)),
        "links.tsv": "你 好 。\tHello .\t0-0 1-0 2-1\n",
        "lm.toml": 'out = "out"\n[data]\ntrain = "long.txt"\nvalid = "long.txt"\n[vocabulary]\nkind = "char"\n[model]\nd_model = 8\n'
        "heads = 1\nlayers = 1\ncontext = 8\n[training]\nsteps = 1\nevaluate_every = 1\n",
        "long.txt": "the quick brown fox jumps over the lazy dog. " * 9,
        "foxes.txt": "🦊🦊🦊\n",
        "empty.txt": "",
        "blank.txt": " \n\t\n\n",
        "deep.json": "[" * 10**5,
        "deep.toml": "a = " + "[" * 10**5,
        "huge.toml": 'out = "x"\n[data]\ntrain = "long.txt"\nvalid = "long.txt"\n[model]\nd_model = 1000000000000\nlayers = 1000000000\n',
        "lost.toml": 'out = "x"\n[data]\ntrain = "nothing.txt"\nvalid = "nothing.txt"\n',
        "model.json": '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 9}',
        "layers.json": '{"model_type": "llama", "num_hidden_layers": 1000000000}',
        "nested.json": '{"model_type": "x", "text_config": {"model_type": "llama", "num_hidden_layers": 1000000000}}',
        "own.json": '{"regard": "Gpt", "config": {"vocabulary": 9, "layers": 1000000000}}',
        "twice.json": '{"text_config": {"text_config": {"text_config": {"layers": 1000000000}}}}',
        "empty.gguf": "",
        "questions.json": json.dumps({"data": [{"title": "t", "paragraphs": [QUESTION]}]}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 40)
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text(texts["own.json"])
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"\xff" * 100)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "5000")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    return tmp_path


def words_of(line: str, **replaced: str) -> list[str]:
    """The words of a line; `replaced` are the values for {model=…} and {file=…}."""
    return [re.sub(r"\{(\w+)=(.*)\}", lambda m: replaced.get(m[1], m[2]), word) for word in shlex.split(line)]


def exit_code(words: list[str]) -> tuple[int, str]:
    """The exit code of `regard WORDS…` in this process, and its standard error: one that is right in every case."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["regard", *words])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
            cli.main()
    code = int(stop.value.code or 0)
    assert code != BUG, (words, err.getvalue())
    assert "Traceback" not in err.getvalue(), words
    assert code == 0 or err.getvalue().strip() or not words, words  # without arguments the help is printed
    if code == FAILED:
        assert len(err.getvalue().splitlines()) == 1, err.getvalue()
    return code, err.getvalue()


def expect(code: int, words: list[str]) -> None:
    actual_code, err = exit_code(words)
    assert actual_code == code, (words, err)


def functions() -> dict[str, Any]:
    """Every command by its words, as "plan show", and its function."""
    app = cli.build()
    results = {info.name: info.callback for info in app.registered_commands}
    for group in app.registered_groups:
        part = group.typer_instance
        if part.registered_callback is not None:
            results[group.name] = part.registered_callback.callback
        results |= {f"{group.name} {info.name or info.callback.__name__}": info.callback for info in part.registered_commands}
    return results


def line_of(command: str, option: str = "") -> str:
    """The first line of a command; the one that uses the option, if it has one."""
    lines = [line for line in LINES if f"{line} ".startswith(f"{command} ")]
    return next((line for line in lines if option and option in line), lines[0])


def options() -> Iterator[tuple[str, str, type, Any]]:
    """Every option of every command: the command, the option, its type and what typer knows of it."""
    for command, function in functions().items():
        for name, hint in get_type_hints(function, include_extras=True).items():
            if not hasattr(hint, "__metadata__"):
                continue  # the context
            form, info = get_args(hint)[:2]
            kinds = [kind for kind in get_args(form) if kind is not type(None)] if get_origin(form) in (Union, UnionType) else [form]
            kinds = list(get_args(kinds[0])) if get_origin(kinds[0]) is list else kinds
            long = next((word for word in getattr(info, "param_decls", None) or () if word.startswith("--")), None)
            if hasattr(info, "param_decls") and type(info).__name__ == "OptionInfo":
                default = info.default if isinstance(info.default, str) and info.default.startswith("--") else None
                yield command, (default or long or f"--{name.replace('_', '-')}").partition("/")[0], kinds[0], info


def test_every_command_has_a_line() -> None:
    assert {command for command in functions() if not any(f"{line} ".startswith(f"{command} ") for line in LINES)} == set()


@pytest.mark.parametrize("line", [line for line in LINES if line not in NOT_RUN])
def test_the_line_works(place: Path, line: str) -> None:
    if line == "models remove lm":
        expect(0, ["models", "add", "saved/lm"])
    expect(0, words_of(line))


@pytest.mark.parametrize(("words", "code"), CASES, ids=[" ".join(words)[:60] for words, _ in CASES])
def test_hostile_arguments(place: Path, words: list[str], code: int) -> None:
    expect(code, words)


@pytest.mark.parametrize("line", [line for line in LINES if "{model=" in line])
def test_what_is_not_a_model_is_a_wrong_argument(place: Path, line: str) -> None:
    for model in HOSTILE_MODELS:
        expect(USAGE, words_of(line, model=model))


@pytest.mark.parametrize("line", [line for line in LINES if "{model=saved/" in line or "{model=summariser}" in line])
def test_weights_that_were_cut_are_a_failure(place: Path, line: str) -> None:
    model = re.search(r"\{model=(.*?)\}", line)
    assert model is not None
    shutil.copytree(place / model[1], place / "cut")
    weights = place / "cut" / "best.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    expect(FAILED, words_of(line, model="cut"))


@pytest.mark.parametrize("line", [line for line in LINES if "{file=" in line])
def test_what_is_not_a_file_of_its_kind_is_a_wrong_argument(place: Path, line: str) -> None:
    for file in HOSTILE_FILES:
        blanks_count = file == "blank.txt" and line.startswith("evaluate lm")  # spaces are a text too, for a model of characters
        expect(0 if blanks_count else USAGE, words_of(line, file=file))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="a file that cannot be read; run on Linux or macOS, not as root")
@pytest.mark.parametrize("line", [line for line in LINES if "{file=" in line])
def test_a_file_that_may_not_be_read(place: Path, line: str) -> None:
    (place / "closed").write_text("a")
    (place / "closed").chmod(0)
    assert exit_code(words_of(line, file="closed"))[0] in (FAILED, USAGE)  # typer asks for some of them itself


NUMBERS = [(command, option) for command, option, kind, _ in options() if kind in (int, float)]


@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_numbers_that_are_none_or_out_of_range(place: Path, command: str, option: str) -> None:
    for number in BAD_NUMBERS:
        expect(USAGE, [*words_of(line_of(command, option)), option, number])


@pytest.mark.parametrize("command", sorted({command for command, option, _, _ in options() if option == "--device"}))
def test_devices_that_are_not_there(place: Path, command: str) -> None:
    for device in ("zzz", "", "cuda:99", "cpu:99999999999", "meta", "\0"):
        expect(USAGE, [*words_of(line_of(command)), "--device", device])


@pytest.mark.parametrize("line", LINES)
def test_unknown_options_and_too_many_arguments(place: Path, line: str) -> None:
    expect(USAGE, [*words_of(line), "--zzz"])
    expect(USAGE, [*words_of(line), "--zzz="])
    expect(USAGE, [*words_of(line), "--", "-x", "\0", "a" * 3000])


WRITES = [(c, o, i) for c, o, kind, i in options() if kind is Path and not i.exists and o not in ("--model", "--run")]


def test_every_option_that_writes_is_tried() -> None:
    assert {(command, option) for command, option, _ in WRITES} == {
        ("look", "--out"), ("translate", "--html"), ("read", "--html"), ("evaluate", "--figure"), ("evaluate", "--out"),
        ("probe", "--figure"), ("fit", "--out"), ("plan show", "--picture"), ("plan measure", "--picture"),
    }  # fmt: skip


@pytest.mark.parametrize(("command", "option"), [*((c, o) for c, o, _ in WRITES), ("demo", "--save")])
def test_files_that_cannot_be_written(place: Path, command: str, option: str) -> None:
    ending = ".html" if option == "--html" or command == "look" else ".svg"
    words = words_of(line_of(command))
    if command == "translate":
        words = ["translate", "我", "--model", "zh-en-bahdanau", "--beam", "1"]
    (place / f"taken{ending}").mkdir()
    (place / f"taken{ending}" / "file").touch()
    for target in (f"good.csv/x{ending}", f"taken{ending}", f"/proc/nothing/x{ending}", f"{'a' * 300}{ending}"):
        expect(FAILED, [*words, option, target])


def test_an_error_of_regard_itself_says_how_to_report_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(cli, "build", lambda: fail)
    monkeypatch.setattr(sys, "argv", ["regard", "doctor"])
    err = io.StringIO()
    with contextlib.redirect_stderr(err), pytest.raises(SystemExit, match=str(BUG)):
        cli.main()
    assert "error of regard itself (KeyError: 'a bug')" in err.getvalue()
    assert len(err.getvalue().splitlines()) == 1
    monkeypatch.setenv("REGARD_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli.main()
