"""What a command imports: one that computes nothing starts without torch, which takes seconds to import."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "safetensors", "sklearn", "transformers", "matplotlib", "fastapi")


def loaded_by(*words: str) -> tuple[str, set[str]]:
    """Run `regard WORDS…` in a new process; return what it printed, and which of HEAVY it imported."""
    code = (
        "import sys, regard.cli\n"
        f"sys.argv = ['regard', *{list(words)!r}]\n"
        "try:\n    regard.cli.main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print('LOADED', *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, set(done.stderr.split("LOADED")[-1].split())


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--help",), "translate"),
        (("translate", "--help"), "--beam"),
        (("train", "--help"), "translation"),
        (("models",), "zh-en-transformer"),
        (("models", "show", "reader"), "sha256"),
        (("plan", "list"), "gpt3"),
        (("plan", "gpt3"), "175,181,291,520"),
        (("plan", "llama-3-8b", "--explain", "--peak-tflops", "10", "--bandwidth", "100"), "roofline"),
        (("plan", "compare", "gpt2", "gpt2-medium"), "ratio"),
        (("demo", "list"), "fluffy"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_commands_that_compute_nothing_do_not_import_torch(words: tuple[str, ...], printed: str) -> None:
    output, loaded = loaded_by(*words)
    assert printed in output
    assert loaded == set()


def test_a_command_that_computes_imports_torch() -> None:
    """So that the test above can fail."""
    assert "torch" in loaded_by("doctor")[1]
