"""The package `regard-models`: it lists every shipped model, and the library finds the models in it."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from regard.zoo import catalog

PACKAGE = Path(__file__).resolve().parents[2] / "packages" / "models"


def test_it_includes_every_model():
    settings = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    folders = sorted(card.parent.name for card in catalog.SOURCE_TREE.glob("*/card.json"))
    assert included == {f"../../src/regard/zoo/{name}": f"regard_models/{name}" for name in folders}


def test_the_two_packages_have_one_version():
    import regard

    settings = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["version"] == regard.__version__


LIBRARY = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from regard.zoo import catalog
catalog.SOURCE_TREE = Path(sys.argv[1])  # as in an installed wheel, which has no models beside the code
"""


def run(code, folder):
    return subprocess.run([sys.executable, "-c", LIBRARY + code, str(folder)], capture_output=True, text=True, check=False)


def test_the_library_finds_the_models_of_the_package(tmp_path):
    shutil.copytree(PACKAGE / "regard_models", tmp_path / "regard_models")
    shutil.copytree(catalog.SOURCE_TREE / "reader", tmp_path / "regard_models" / "reader")
    result = run("print(catalog.find('reader').check().path)", tmp_path)
    assert result.stdout.strip() == str(tmp_path / "regard_models" / "reader"), result.stderr


def test_without_it_the_error_names_the_command(tmp_path):
    failed = run("catalog.find('zh-en-transformer')", tmp_path)
    assert "the shipped models are not installed: pip install regard-models" in failed.stderr
    failed = run("catalog.translator('zh')", tmp_path)
    assert "pip install regard-models" in failed.stderr
