"""Commands in real processes: what only a shell, a signal or a full disk can do."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A line of bash, the code it exits with, and what it says on standard error.
SHELL = [
    ("regard translate --from de --file many.txt | head -1 >/dev/null; exit ${PIPESTATUS[0]}", 141, ""),
    ("regard plan list | true; exit ${PIPESTATUS[0]}", 141, ""),  # written by typer
    ("regard plan gpt3 --no-roofline --explain | true; exit ${PIPESTATUS[0]}", 141, ""),  # by rich
    ("regard models --json | true; exit ${PIPESTATUS[0]}", 141, ""),  # by sys.stdout
    ("regard demo fluffy | true; exit ${PIPESTATUS[0]}", 141, ""),  # by print
    ("regard --help | true; exit ${PIPESTATUS[0]}", 141, ""),
    ("regard plan list | cat >/dev/null; exit ${PIPESTATUS[0]}", 0, ""),
    ("regard plan list >/dev/full", 1, "No space left on device"),
    ("regard plan gpt3 --no-roofline --explain >/dev/full", 1, "No space left on device"),
    ("regard plan gpt3 --no-roofline --json >/dev/full", 1, "No space left on device"),
    ("regard plan gpt3 --no-roofline --picture /dev/full", 2, "a figure is saved as .svg"),
    ("regard plan list >&-", 0, ""),
    ("regard plan list 2>&-", 0, ""),
    ("regard plan nothing 2>&-", 2, ""),
    ("regard plan nothing 2>/dev/full", 2, ""),
    ("regard plan a/b.json >&- 2>/dev/full <&-", 2, ""),
    ("regard translate <&-", 2, "standard input is empty"),
    ("regard generate - <&-", 2, "the text is empty"),
    ("head -c 101000000 /dev/zero | regard translate", 2, "more than 100,000,000 bytes"),
    ("regard plan /dev/full", 2, "config.json"),
    ("regard train lm /dev/zero", 2, "more than 100,000,000 bytes"),
    ("PYTHONIOENCODING=ascii regard demo fluffy", 0, ""),
    ("PYTHONIOENCODING=ascii regard plan gpt3 --no-roofline --explain", 0, ""),
    ("PYTHONIOENCODING=ascii regard models", 0, ""),
    ("PYTHONIOENCODING=ascii regard plan 模型", 2, r"\u6a21\u578b"),
    ("PYTHONIOENCODING=utf-16 regard plan list", 0, ""),
    ("PYTHONIOENCODING=latin-1 regard translate 我爱中国", 0, ""),
    ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 regard translate 我爱中国", 0, ""),
    ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 regard translate --file chinese.txt", 0, ""),
    ("regard translate $'\\xff'", 2, "not UTF-8"),
    ("ulimit -v 3000000; regard plan nested.json", 2, "from 1 to 1,000"),
    ("cd gone && rmdir ../gone && regard plan list", 0, ""),
    ("env -u HOME -u XDG_DATA_HOME -u REGARD_HOME regard models", 0, ""),
    ("REGARD_HOME=/dev/null regard models", 0, ""),
    ("REGARD_HOME='~nobody/x' regard models", 0, ""),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the cases use bash and /dev/full; run on Linux")
@pytest.mark.parametrize(("script", "code", "says"), SHELL, ids=[script for script, _, _ in SHELL])
def test_in_a_shell(tmp_path: Path, script: str, code: int, says: str) -> None:
    (tmp_path / "many.txt").write_text("Hallo\n" + "\n" * 200_000)  # more than fits a pipe
    (tmp_path / "chinese.txt").write_text("我爱中国\n", encoding="utf-8")
    (tmp_path / "nested.json").write_text('{"model_type": "x", "text_config": {"model_type": "llama", "num_hidden_layers": 1000000000}}')
    (tmp_path / "gone").mkdir()
    (tmp_path / "regard").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    (tmp_path / "regard").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "REGARD_HOME": str(tmp_path / "home")}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, timeout=300, check=False, env=environment)
    err = done.stderr.decode()
    assert done.returncode == code, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert says in " ".join(err.replace("│", " ").replace("|", " ").split())


LM = """
out = "run"
[data]
train = "text.txt"
valid = "text.txt"
[vocabulary]
kind = "char"
[model]
d_model = 64
heads = 2
layers = 1
context = 8
[training]
"""
TRAIN = [sys.executable, "-m", "regard", "train", "lm", "lm.toml", "--quiet"]


def _usual_signals() -> None:
    """A shell that runs the tests in the background has its processes ignore Ctrl-C."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def _write_config(folder: Path, training: str) -> None:
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 50)
    (folder / "lm.toml").write_text(LM + training)


@pytest.mark.skipif(os.name == "nt", reason="signals are sent; run on Linux or macOS")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_training_that_gets_a_signal_saves_and_exits_with_its_number(tmp_path: Path, name: str) -> None:
    _write_config(tmp_path, "steps = 1000000\nlog_every = 1\nevaluate_every = 1000000\n")
    training = subprocess.Popen(TRAIN, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_usual_signals)
    try:
        log = tmp_path / "run" / "log.jsonl"
        while not (log.exists() and log.stat().st_size):
            assert training.poll() is None, training.communicate()
            time.sleep(0.05)
        second = subprocess.run(TRAIN, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert second.returncode == 1
        assert f"is in use by process {training.pid} on" in second.stderr
        assert len(second.stderr.splitlines()) == 1
        training.send_signal(getattr(signal, name))
        out, err = training.communicate(timeout=120)
    finally:
        training.kill()
    assert training.returncode == 128 + getattr(signal, name), err
    assert "saved; run the same command to resume" in out
    assert err == ""
    assert list((tmp_path / "run" / "checkpoints").iterdir())


@pytest.mark.skipif(os.name == "nt", reason="signals are sent; run on Linux or macOS")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", -signal.SIGTERM), ("SIGHUP", -1)])
def test_another_command_that_gets_a_signal_ends_with_its_number(tmp_path: Path, name: str, code: int) -> None:
    """It waits for the keyboard; Python's own number is −n where the shell's is 128 + n."""
    import pty

    keyboard, terminal = pty.openpty()
    words = [sys.executable, "-m", "regard", "translate"]
    command = subprocess.Popen(words, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_usual_signals)
    try:
        assert command.stderr is not None
        assert b"reading from the keyboard" in command.stderr.readline()
        command.send_signal(getattr(signal, name))
        _, err = command.communicate(timeout=120)
    finally:
        command.kill()
        os.close(keyboard)
        os.close(terminal)
    assert command.returncode == code, err.decode()
    assert b"Traceback" not in err


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """The writes of a checkpoint fail as on a full disk: the file system says no, not a stand-in for our code."""
    resource = pytest.importorskip("resource", reason="limits of file sizes need a Unix system")
    _write_config(tmp_path, "steps = 10\ncheckpoint_every = 5\nevaluate_every = 1000\n")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails with EFBIG
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    full = subprocess.run(TRAIN, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, preexec_fn=limit)
    assert full.returncode == 1, full.stderr
    assert os.strerror(errno.EFBIG) in full.stderr
    assert "the file was not written" in full.stderr
    assert len(full.stderr.splitlines()) == 1
    assert [file.name for file in (tmp_path / "run" / "checkpoints").iterdir()] == []
    enough = subprocess.run(TRAIN, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert enough.returncode == 0, enough.stderr


def test_data_that_cannot_be_trained_on_leaves_nothing_behind(tmp_path: Path) -> None:
    """Otherwise the next try, with data that can be, would be told that the data of the run has changed."""
    _write_config(tmp_path, "steps = 1\nevaluate_every = 1\n")
    (tmp_path / "text.txt").write_text("")
    empty = subprocess.run(TRAIN, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert empty.returncode == 2, empty.stderr
    assert not (tmp_path / "run").exists()
    _write_config(tmp_path, "steps = 1\nevaluate_every = 1\n")
    done = subprocess.run(TRAIN, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
