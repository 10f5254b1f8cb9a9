"""Every command with hostile arguments: the right exit code, one sentence, no traceback. Through `main()`, and twenty in a real shell."""

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard import cli
from regard.cli.boundary import BUG

WORD = "Donaudampfschifffahrtsgesellschaft" * 90  # 3,060 letters
BAD_NUMBERS = ["nan", "-1", "1e400", "x", "", str(10**30)]
# command → (arguments that would do, were it not for one more)
COMMANDS: dict[str, list[str]] = {
    "translate": ["translate", "Hallo", "--no-alignment"],
    "generate": ["generate", "a", "--max-new", "2"],
    "read": ["read", "story.txt", "--ask", "Where is Mary?"],
    "look": ["look", "shakespeare", "--text", "abc", "--no-baseline", "--no-labels"],
    "plan": ["plan", "gpt3", "--no-roofline"],
    "fit": ["fit", "good.csv", "--target", "y"],
    "evaluate": ["evaluate", "translation", "zh-en-bahdanau"],
    "train": ["train", "lm"],
    "demo": ["demo", "fluffy"],
    "models": ["models", "show"],
    "studio": ["studio", "--no-open"],
    "doctor": ["doctor"],
}
NUMBERED = {
    "translate": ["--beam", "--n-best", "--temperature", "--seed"],
    "generate": ["--max-new", "--temperature", "--top-k", "--top-p", "--seed"],
    "look": ["--tokens"],
    "plan": ["--context", "--batch", "--generate", "--source", "--ranks", "--link", "--peak-tflops", "--bandwidth"],
    "fit": ["--held-out", "--seed"],
    "studio": ["--port"],
}
WRITES = {
    "look": ["--out", ".html"],
    "plan": ["--picture", ".svg"],
    "fit": ["--out", ".svg"],
    "translate": ["--html", ".html"],
    "demo": ["--save", ".svg"],
}
# Arguments that once ended in a traceback, a hang or a kill, and others like them; the code they must exit with.
CASES: list[tuple[list[str], int]] = [
    (["translate", "Hallo", "--device", "zzz"], 2),
    (["translate", "Hallo", "--device", ""], 2),
    (["translate", "Hallo", "--device", "cuda:99"], 2),
    (["translate", "Hallo", "--beam", "1000000"], 2),
    (["translate", "Hallo", "--n-best", "1000000"], 2),
    (["translate", "Hallo", "--temperature", "1e-320"], 0),
    (["translate", WORD, "--beam", "1"], 0),
    (["translate", "\udcff"], 2),
    (["translate", ""], 2),
    (["translate", "--file", "empty.txt"], 2),
    (["translate", "--file", "binary"], 2),
    (["translate", "Hallo", "--model", "folder"], 2),
    (["translate", "Hallo", "--model", "a\0b"], 2),
    (["translate", "Hallo", "--model", "a" * 5000], 1),
    (["translate", "Hallo", "--model", "damaged"], 2),
    (["evaluate", "translation", "zh-en-bahdanau", "--test", "empty.txt"], 2),
    (["evaluate", "lm", "shakespeare", "--test", "empty.txt"], 2),
    (["evaluate", "reader", "reader", "--test", "empty.txt"], 2),
    (["evaluate", "lm", "shakespeare", "--test", "folder"], 1),
    (["evaluate", "lm", "shakespeare", "--test", "binary"], 2),
    (["evaluate", "nothing", "shakespeare", "--test", "empty.txt"], 2),
    (["generate", "a", "--model", "damaged"], 2),
    (["generate", "\0"], 2),
    (["generate", "-"], 2),
    (["read", "empty.txt", "--ask", "x"], 2),
    (["read", "binary", "--ask", "x"], 2),
    (["read", "story.txt", "--ask", ""], 2),
    (["look", "shakespeare", "--text", "abc", "--head", "99.99"], 2),
    (["look", "shakespeare", "--text", "abc", "--head", f"{10**30}.0"], 2),
    (["look", "damaged", "--text", "abc"], 2),
    (["plan", "layers.json"], 2),
    (["plan", "nested.json"], 2),
    (["plan", "deep.json"], 2),
    (["plan", "own.json"], 2),
    (["plan", "binary"], 2),
    (["plan", "folder"], 2),
    (["plan", "a" * 5000], 1),
    (["plan", "gpt3", "--context", "0", "--no-roofline"], 0),
    (["plan", "--context", "0"], 2),
    (["plan", "gpt3", "--ranks", "1000000", "--link", "1", "--peak-tflops", "1", "--bandwidth", "1"], 2),
    (["plan", "measure", "--sizes", "1,2,10000000000", "--seconds", "1"], 1),
    (["plan", "compare", "gpt3", "layers.json"], 2),
    (["fit", "empty.txt", "--target", "y"], 2),
    (["fit", "binary", "--target", "y"], 2),
    (["fit", "good.csv", "--target", "nothing"], 2),
    (["train", "lm", "empty.txt"], 2),
    (["train", "translation", "binary"], 2),
    (["train", "translation", "deep.toml"], 2),
    (["train", "nothing", "empty.txt"], 2),
    (["models", "show", "../.."], 2),
    (["models", "add", "binary"], 2),
    (["models", "remove", "../.."], 2),
    (["demo", "nothing"], 2),
    (["studio", "--no-open", "--model", "folder"], 2),
    (["nothing"], 2),
    ([], 2),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder the commands run in, with files that are not what they should be."""
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "deep.json").write_text("[" * 10**5)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 10**5)
    (tmp_path / "layers.json").write_text('{"model_type": "llama", "num_hidden_layers": 1000000000}')
    (tmp_path / "nested.json").write_text('{"model_type": "x", "text_config": {"model_type": "llama", "num_hidden_layers": 1000000000}}')
    (tmp_path / "own.json").write_text('{"regard": "Gpt", "config": {"vocabulary": 9, "layers": 1000000000}}')
    (tmp_path / "story.txt").write_text("Mary went to the kitchen.\n")
    (tmp_path / "good.csv").write_text("x,y\n" + "".join(f"{i},{i * i}\n" for i in range(20)))
    (tmp_path / "folder").mkdir()
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_text(json.dumps({"regard": "Gpt", "config": {"vocabulary": 9, "layers": 10**9}}))
    (damaged / "model.safetensors").write_bytes(b"\xff" * 100)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    return tmp_path


def exit_code(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code of `regard WORDS…` in this process, and its standard error."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0), err.getvalue()


@pytest.mark.parametrize(("words", "code"), CASES, ids=[" ".join(words)[:50] for words, _ in CASES])
def test_hostile_arguments(place: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int) -> None:
    given, err = exit_code(words, monkeypatch)
    assert given == code, err
    assert "Traceback" not in err
    assert code == 0 or err.strip() or not words  # without arguments the help is printed


@pytest.mark.parametrize(("command", "option"), [(command, option) for command, options in NUMBERED.items() for option in options])
def test_numbers_that_are_none_or_out_of_range(place: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str) -> None:
    for number in BAD_NUMBERS:  # 1e400 is infinite: the speed of a machine, or a temperature, may be
        code, err = exit_code([*COMMANDS[command], option, number], monkeypatch)
        assert code in (1, 2) or (code == 0 and command in ("plan", "generate", "translate")), (
            number,
            err,
        )
        assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_options_and_too_many_arguments(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    for extra in (["--zzz"], ["--device"], ["--", "-x", "\0", "a" * 3000]):
        code, err = exit_code([*COMMANDS[command], *extra], monkeypatch)
        assert code in (1, 2), (extra, err)
        assert "Traceback" not in err


@pytest.mark.parametrize("command", WRITES)
def test_files_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    option, ending = WRITES[command]
    (place / f"taken{ending}").mkdir()
    words = COMMANDS[command] if command != "translate" else ["translate", "Hallo"]
    for target in (f"good.csv/x{ending}", f"taken{ending}", f"/proc/nothing/x{ending}", f"{'a' * 300}{ending}"):
        code, err = exit_code([*words, option, target], monkeypatch)
        assert code in (1, 2), (target, err)
        assert "Traceback" not in err


def test_an_error_of_regard_itself_says_how_to_report_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(cli, "build", lambda: fail)
    code, err = exit_code(["doctor"], monkeypatch)
    assert code == BUG
    assert "error of regard itself (KeyError: 'a bug')" in err
    assert len(err.splitlines()) == 1
    monkeypatch.setenv("REGARD_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["regard", "doctor"])
    with pytest.raises(KeyError):
        cli.main()


# Real processes: what only the shell can do.
SHELL = [
    ("regard plan list | head -1 >/dev/null; exit ${PIPESTATUS[0]}", (0, 1, 141), ""),  # rich ends with 1
    ("regard plan gpt3 --no-roofline --explain | true; exit ${PIPESTATUS[0]}", (0, 1, 141), ""),  # rich exits with 1
    ("regard plan list >/dev/full", (1,), "No space left on device"),
    ("regard plan gpt3 --no-roofline --json >/dev/full", (1,), "No space left on device"),
    ("regard plan list >&-", (0,), ""),
    ("regard plan list 2>&-", (0,), ""),
    ("regard plan nothing 2>&-", (2,), ""),
    ("regard plan nothing 2>/dev/full", (1, 2), ""),
    ("regard translate <&-", (2,), "standard input is empty"),
    ("regard generate - <&-", (2,), "the text is empty"),
    ("regard translate </dev/null", (2,), "standard input is empty"),
    ("head -c 101000000 /dev/zero | regard translate", (1, 2), "more than 100,000,000 bytes"),
    ("regard plan /dev/full", (2,), "config.json"),
    ("PYTHONIOENCODING=ascii regard demo fluffy", (0,), ""),
    ("PYTHONIOENCODING=ascii regard plan gpt3 --no-roofline --explain", (0,), ""),
    ("PYTHONIOENCODING=latin-1 regard translate 我爱中国", (0,), ""),
    ("LC_ALL=C PYTHONUTF8=0 regard translate --from zh --no-alignment </dev/null", (2,), "empty"),
    ("PYTHONIOENCODING=ascii regard models", (0,), ""),
    ("regard plan layers.json", (2,), "from 1 to 1,000"),
    ("ulimit -v 3000000; regard plan nested.json", (2,), "from 1 to 1,000"),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the cases use bash and /dev/full; run on Linux")
@pytest.mark.parametrize(("script", "codes", "says"), SHELL, ids=[script for script, _, _ in SHELL])
def test_in_a_shell(place: Path, script: str, codes: tuple[int, ...], says: str) -> None:
    regard = f'regard() {{ {sys.executable} -m regard "$@"; }}; '
    done = subprocess.run(["bash", "-c", regard + script], capture_output=True, timeout=120, check=False)
    err = done.stderr.decode()
    assert done.returncode in codes, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert says in " ".join(err.replace("│", " ").split())


@pytest.mark.skipif(os.name == "nt", reason="signals are sent; run on Linux or macOS")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_training_that_gets_a_signal_saves_and_exits_with_its_number(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 50)
    (tmp_path / "lm.toml").write_text(
        'out = "run"\n[data]\ntrain = "text.txt"\nvalid = "text.txt"\n[vocabulary]\nkind = "char"\n'
        "[model]\nd_model = 16\nheads = 2\nlayers = 1\ncontext = 8\n[training]\nsteps = 1000000\nlog_every = 1\nevaluate_every = 1000000\n"
    )
    command = [sys.executable, "-m", "regard", "train", "lm", "lm.toml", "--quiet"]
    training = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        log = tmp_path / "run" / "log.jsonl"
        while not (log.exists() and log.stat().st_size):
            assert training.poll() is None, training.communicate()
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert second.returncode == 2
        assert f"is in use by process {training.pid} on" in " ".join(second.stderr.replace("│", " ").split())
        training.send_signal(getattr(signal, name))
        out, err = training.communicate(timeout=60)
    finally:
        training.kill()
    assert training.returncode == 128 + getattr(signal, name), err
    assert "saved; run the same command to resume" in out
    assert err == ""
    assert list((tmp_path / "run" / "checkpoints").iterdir())


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writes of a checkpoint fail as on a full disk: the file system says no, not a stand-in for our code."""
    resource = pytest.importorskip("resource", reason="limits of file sizes need a Unix system")
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 50)
    (tmp_path / "lm.toml").write_text(
        'out = "run"\n[data]\ntrain = "text.txt"\nvalid = "text.txt"\n[vocabulary]\nkind = "char"\n'
        "[model]\nd_model = 64\nheads = 2\nlayers = 1\ncontext = 8\n[training]\nsteps = 10\ncheckpoint_every = 5\nevaluate_every = 1000\n"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails with EFBIG
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-m", "regard", "train", "lm", "lm.toml", "--quiet"]
    full = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, preexec_fn=limit)
    assert full.returncode == 1, full.stderr
    assert os.strerror(errno.EFBIG) in full.stderr
    assert "the file was not written" in full.stderr
    assert len(full.stderr.splitlines()) == 1
    assert [file.name for file in (tmp_path / "run" / "checkpoints").iterdir()] == []
    enough = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert enough.returncode == 0, enough.stderr
