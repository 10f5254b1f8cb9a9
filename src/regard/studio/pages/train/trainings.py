"""The training processes that the studio has started: `regard train` on a run's own config, one at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

from ...request_error import RequestError
from ...runs_folder import run_path

STOP_SECONDS = 20.0  # for the checkpoint that a stopped run writes


class Trainings:
    """At most one running process; a run that was started in a terminal is watched, not stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._name = ""

    def check_free(self) -> None:
        """Raise RequestError while a run is training."""
        if self._alive():
            raise RequestError("training", f"{self._name} is training; stop it first", name=self._name)

    def start(self, name: str) -> None:
        """Train the run of this name to its end, from its newest checkpoint if it has one."""
        folder = run_path(name)
        if folder is None or not (folder / "config.toml").is_file():
            raise RequestError("unknown_run", f"no run of the studio is called {name!r}", name=name)
        with self._lock:
            self.check_free()
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "regard", "train", "translation", "config.toml"]
            with (folder / "output.txt").open("ab") as output:
                self._process = subprocess.Popen(
                    command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            self._name = name

    def stop(self, name: str) -> None:
        """Stop the run, if it is the one that is training, and wait for its checkpoint."""
        process = self._process
        if name != self._name or process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def state(self, name: str) -> dict[str, Any]:
        """Whether the run is training here, and the last line it printed if it failed."""
        if name != self._name or self._process is None:
            return {"running": False, "failed": None, "mine": False}
        code = self._process.poll()
        return {"running": code is None, "failed": self._last_line() if code and code > 0 and code < 128 else None, "mine": True}

    def close(self) -> None:
        """Stop what is training, when the studio ends."""
        self.stop(self._name)

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _last_line(self) -> str:
        folder = run_path(self._name)
        text = (folder / "output.txt").read_text(encoding="utf-8", errors="replace") if folder else ""
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:300]


TRAININGS = Trainings()
