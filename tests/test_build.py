"""regard installs and runs without a C++ compiler: a wheel is built without the compiled kernels, and used."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

USE = """
import json, torch, regard
from regard.cli.doctor import examine
assert "WHEEL" in regard.__file__, regard.__file__
q = torch.randn(1, 2, 300, 8, requires_grad=True)
out = regard.attend(q, q, q, mask=regard.causal() & regard.window(20, 0))
out.sum().backward()
report = examine()
print(json.dumps([regard.explain(q, q, q, mask=regard.window(3, 3)).kernel, report["instruction_set"], report["kernels"]["native"]["why"]]))
"""


def test_without_compiled_kernels(tmp_path: Path) -> None:
    environment = {**os.environ, "REGARD_NO_NATIVE": "1"}
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    file_names = zipfile.ZipFile(wheel).namelist()
    assert "regard/attention.py" in file_names
    assert "regard/py.typed" in file_names
    assert not [name for name in file_names if "_native" in name.rsplit("/", 1)[-1] and name.endswith((".so", ".pyd"))]
    folder = tmp_path / "WHEEL"
    zipfile.ZipFile(wheel).extractall(folder)
    # -S keeps the editable install's import hook away; the site-packages are added by hand.
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    code = f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path.append({packages!r})\n{USE}"
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert '"streamed", null' in ran.stdout
    assert "without its compiled kernels" in ran.stdout
