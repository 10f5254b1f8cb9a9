"""A machine without a working compiler still installs and runs, and says why it has no compiled kernels: wheels are built for real."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

USE = """
import json, torch, regard
from regard.cli.doctor import doctor, examine
assert "WHEEL" in regard.__file__, regard.__file__
q = torch.randn(1, 2, 300, 8, requires_grad=True)
out = regard.attend(q, q, q, mask=regard.causal() & regard.window(20, 0))
out.sum().backward()
doctor(as_json=False)
report = examine()
chosen = regard.explain(q, q, q, mask=regard.window(3, 3)).kernel
print(json.dumps([chosen, report["instruction_set"], report["kernels"]["native"]["why"], report["compiled_kernels_missing"]]))
"""


def source_tree(folder: Path) -> Path:
    """A copy of what a wheel is built from."""
    for name in ("native", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def build_wheel(tree: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", str(folder), str(tree)]
    inherited = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    return subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True)


def use_wheel(folder: Path) -> list[str | None]:
    """What `USE` prints with the one wheel of `folder`, which must hold no compiled extension."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (manifest,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        listed = {line.split(",")[0] for line in archive.read(manifest).decode().splitlines()}
        archive.extractall(folder / "WHEEL")
    assert "regard/attention.py" in names
    assert "regard/py.typed" in names
    assert listed == set(names)
    assert not [name for name in names if name.startswith("regard/zoo/") and name.count("/") > 2], "models belong to regard-models"
    assert not [name for name in names if "_native" in name.rsplit("/", 1)[-1] and name.endswith((".so", ".pyd"))]
    # -S keeps the editable install's import hook away; the site-packages are added by hand.
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    code = f"import sys; sys.path[:0] = [{str(folder / 'WHEEL')!r}]; sys.path.append({packages!r})\n{USE}"
    ran = subprocess.run([sys.executable, "-S", "-c", code], env={**os.environ, "COLUMNS": "999"}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    *printed, last = ran.stdout.splitlines()
    answers: list[str | None] = json.loads(last)
    assert f"compiled kernels: {answers[3]}" in printed  # of `regard doctor`
    return answers


def path_with(folder: Path, *more: str) -> str:
    """A PATH with cmake, what it needs, and `more`."""
    folder.mkdir()
    for tool in ("cmake", "ninja", "make", "sh", "uname", *more):
        if path := shutil.which(tool):
            (folder / tool).symlink_to(path)
    return str(folder)


def test_the_source_archive_holds_what_a_wheel_is_built_from(tmp_path: Path) -> None:
    code = "import sys; sys.path[:0] = ['native']; import build_backend; build_backend.build_sdist(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("regard-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames()}
    sources = {str(file.relative_to(ROOT)) for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "native").glob("*")] if file.is_file()}
    assert sources | {"CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert {"src/regard/py.typed", "src/regard/_native.pyi"} <= names
    assert not [name for name in names if name.endswith(".safetensors") or name.startswith(("tests/", "docs/", "packages/"))]
    assert archive.stat().st_size < 5e6


def test_left_out_on_purpose(tmp_path: Path) -> None:
    done = build_wheel(ROOT, tmp_path, REGARD_NO_NATIVE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING: regard's compiled kernels" not in done.stdout + done.stderr
    kernel, instruction_set, why, missing = use_wheel(tmp_path)
    assert (kernel, instruction_set) == ("streamed", None)
    assert why is not None
    assert "without its compiled kernels" in why
    assert missing == "left out on purpose: REGARD_NO_NATIVE was set when regard was installed"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is missing: install it")
def test_a_compile_error_is_reported(tmp_path: Path) -> None:
    """The compiler's first error is printed, stored in the wheel and shown by `regard doctor`; REGARD_REQUIRE_NATIVE makes it fatal."""
    if shutil.which("c++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler: install g++ or clang++")
    tree = source_tree(tmp_path / "tree")
    for source in (tree / "native").glob("*.cpp"):  # whichever is compiled first fails at once
        source.write_text("int broken = no_such_name;\n")
    refused = build_wheel(tree, tmp_path / "none", REGARD_REQUIRE_NATIVE="1")
    assert refused.returncode != 0
    assert "REGARD_REQUIRE_NATIVE is set" in refused.stdout + refused.stderr
    done = build_wheel(tree, tmp_path / "wheel")
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout + done.stderr
    assert "WARNING: regard's compiled kernels could NOT be built" in printed
    missing = use_wheel(tmp_path / "wheel")[3]
    assert missing is not None
    assert missing.startswith("not built: ")
    assert "error:" in missing
    assert "no_such_name" in missing
    assert missing.removeprefix("not built: ") in printed


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is missing: install it")
def test_no_compiler(tmp_path: Path) -> None:
    """PATH holds cmake and what it needs, but no compiler."""
    tools = path_with(tmp_path / "bin")
    done = build_wheel(source_tree(tmp_path / "tree"), tmp_path / "wheel", PATH=tools)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = use_wheel(tmp_path / "wheel")[3]
    assert missing is not None
    assert missing.startswith("not built: CMake Error")
    assert missing.endswith("No CMAKE_CXX_COMPILER could be found.")
    assert missing.removeprefix("not built: ") in done.stdout + done.stderr


NO_COMPILER = """\
CMake Error at CMakeLists.txt:2 (project):
  No CMAKE_CXX_COMPILER could be found.

  Tell CMake where to find the compiler by setting either the environment
  variable "CXX" or the CMake cache entry CMAKE_CXX_COMPILER to the full path
  to the compiler, or to the compiler name if it is in the PATH.


-- Configuring incomplete, errors occurred!
"""
BROKEN_COMPILER = """\
-- Check for working CXX compiler: /usr/bin/c++ - broken
CMake Error at CMakeTestCXXCompiler.cmake:63 (message):
  The C++ compiler

    "/usr/bin/c++"

  is not able to compile a simple test program.

  It fails with the following output:

    Change Dir: TryCompile-2uhRst
"""
LONG_SENTENCE = """\
CMake Error at CMakeLists.txt:85 (find_package):
  By not providing "Findnanobind.cmake" in CMAKE_MODULE_PATH this project has
  asked CMake to find a package configuration file provided by "nanobind", but
  CMake did not find one.

  Could not find a package configuration file provided by "nanobind" with any
"""
NO_TEXT = """\
CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage

-- Configuring incomplete, errors occurred!
"""


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (NO_COMPILER, "CMake Error at CMakeLists.txt:2 (project): No CMAKE_CXX_COMPILER could be found."),
        (
            BROKEN_COMPILER,
            'CMake Error at CMakeTestCXXCompiler.cmake:63 (message): The C++ compiler "/usr/bin/c++" '
            "is not able to compile a simple test program.",
        ),
        (
            LONG_SENTENCE,
            'CMake Error at CMakeLists.txt:85 (find_package): By not providing "Findnanobind.cmake" in CMAKE_MODULE_PATH this project has '
            'asked CMake to find a package configuration file provided by "nanobind", but CMake did not find one.',
        ),
        (NO_TEXT, "CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage"),
        ("CMake Error at x.cmake:1 (message):\n  no full stop\n", "CMake Error at x.cmake:1 (message): no full stop"),
    ],
    ids=["no compiler", "broken compiler", "long sentence", "no text", "no full stop"],
)
def test_the_stored_error_of_cmake_is_a_whole_sentence(output: str, error: str) -> None:
    spec = importlib.util.spec_from_file_location("build_backend", ROOT / "native" / "build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    assert backend.first_error(output.splitlines()) == error


@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("clang++") is None, reason="cmake or clang++ is missing: install it")
def test_only_clang(tmp_path: Path) -> None:
    """clang++ is used where the compiler that Python was built with is missing."""
    tree = source_tree(tmp_path / "tree")
    for source in (tree / "native").glob("*.cpp"):
        source.write_text("int broken = no_such_name;\n")
    tools = path_with(tmp_path / "bin", "clang++", "ld", "ar", "ranlib")
    done = build_wheel(tree, tmp_path / "wheel", PATH=tools)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = use_wheel(tmp_path / "wheel")[3]
    assert missing is not None
    assert "use of undeclared identifier 'no_such_name'" in missing  # clang's words
