"""`regard studio`: it starts, answers this machine only, explains errors, and stops on Ctrl-C."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the studio needs fastapi and uvicorn: pip install 'regard[studio]'")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", "studio", "--no-open", *words], capture_output=True, text=True, timeout=120, check=False
    )


def test_a_folder_that_is_not_a_model_is_an_error(tmp_path: Path) -> None:
    done = run("--model", str(tmp_path))
    assert done.returncode == 2
    assert "is not a model" in " ".join(done.stderr.replace("│", " ").split())


def test_a_folder_that_is_not_a_run_cannot_be_watched(tmp_path: Path) -> None:
    done = run("--run", str(tmp_path))
    assert done.returncode == 2
    assert "is not a run" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as SIGINT; run on Linux or macOS")
def test_it_serves_and_stops_together_with_its_worker() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "studio", "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("the studio is at http://127.0.0.1:")
        address = line.split()[4]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.partition("?")[0], timeout=60)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address, timeout=60) as answer:
            assert b'id="known"' in answer.read()
            assert "token" not in answer.url
        wrong_host = urllib.request.Request(address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(wrong_host, timeout=60)
        children_file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        children = children_file.read_text().split() if children_file.exists() else []
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        for _ in range(200):
            if not any(Path(f"/proc/{child}").exists() for child in children):
                break
            time.sleep(0.05)
        else:
            pytest.fail("the worker process is still running")
    finally:
        process.kill()
        process.communicate()
