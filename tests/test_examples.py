"""The notebooks in examples/ run from beginning to end in a real kernel, and their results are shown as pictures and tables.

Those that train run with the slow tests, and with all tests where examples/ has changed since the last commit or in it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
TRAINING = {"replace_attention_and_train", "train_a_translator"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def changed() -> bool:
    """Whether examples/ differs from the commit before the last one."""
    command = ["git", "diff", "--quiet", "HEAD~1", "--", "examples"]
    try:
        return subprocess.run(command, cwd=FOLDER.parent, check=False, capture_output=True).returncode == 1
    except OSError:
        return False


def case(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in TRAINING and not changed() else name


def test_there_are_six_without_stored_outputs() -> None:
    assert len(NAMES) == 6
    assert set(NAMES) >= TRAINING
    for name in NAMES:
        cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)


@pytest.mark.parametrize("name", [case(name) for name in NAMES])
@pytest.mark.filterwarnings("ignore")  # of the notebook machinery; a cell's own warnings are checked below
def test_it_runs(name: str, tmp_path: Path) -> None:
    reason = "needs nbclient and ipykernel: pip install -e '.[dev]'"
    nbformat = pytest.importorskip("nbformat", reason=reason)
    nbclient = pytest.importorskip("nbclient", reason=reason)
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stderr")
    assert "Error" not in printed
    assert "regard/" not in printed, "a warning of the library itself"
    rich = {kind for output in outputs if output.output_type == "execute_result" for kind in output.data} - {"text/plain"}
    assert rich & {"text/html", "image/png"}
    for output in outputs:  # nothing fills more than a screen
        text = output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain", "")
        assert len(text.splitlines()) <= 24, text
