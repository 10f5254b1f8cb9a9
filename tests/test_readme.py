"""The Python blocks of the READMEs run, in order, and their links exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_every_python_block_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some blocks write files
    code_blocks = blocks(ROOT / "README.md")
    assert len(code_blocks) == 3
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for number, code in enumerate(code_blocks):
        exec(compile(code, f"README.md block {number}", "exec"), names)
    assert names["out"].shape == (2, 8, 64, 64)  # type: ignore[attr-defined]
    assert names["pick"].log_prob.shape == (2, 8, 1024)  # type: ignore[attr-defined]
    assert names["seen"][0].readings["entropy"].shape == (1, 4, 12)  # type: ignore[index]
    printed = capsys.readouterr().out
    assert "kernel" in printed
    assert "rejected" in printed


def test_every_python_block_of_the_chinese_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, code in enumerate(blocks(ROOT / "README.zh-CN.md")):
        exec(compile(code, f"README.zh-CN.md block {number}", "exec"), names)
    assert names["pick"].index.shape == (2, 8, 1024)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_every_file_it_links_to_exists(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert links
    for name in links:
        assert (ROOT / name).exists(), name
