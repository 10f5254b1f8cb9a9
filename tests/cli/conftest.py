"""Models for the commands: added to a folder of the test's own, so that the models of the user who runs the tests are not involved."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / folder) for folder in ("cli", "training", "zoo")]

from command_line import regard  # noqa: E402
from made_models import bleu, translator_run  # noqa: E402
from pairs_of import config, reversal  # noqa: E402

from regard.zoo.packing import pack  # noqa: E402


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The folder of added models during this test."""
    monkeypatch.setenv("REGARD_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "models"


@pytest.fixture(scope="session")
def reversal_run(tmp_path_factory) -> Path:
    """A translator trained with `regard train` to reverse a sequence of letters, just long enough to align."""
    folder = tmp_path_factory.mktemp("cli")
    reversal(folder, train=1500, valid=30, longest=6)
    settings = 'steps = 250\nrate = 6e-3\nwarmup = 20\nschedule = "cosine"\nevaluate_every = 125\nmetric = "exact"'
    path = config(folder, settings, model="embedding = 24\nstate = 64\nalignment = 24\ndropout = 0.0")
    result = regard("train", "translation", path)
    assert result.exit_code == 0, result.output
    assert "step 125" in result.output
    assert "done: 250 steps" in result.output
    return folder / "run"


@pytest.fixture(scope="session")
def packed(tmp_path_factory) -> Path:
    """A folder with two packed, untrained translators: zh and de."""
    folder = tmp_path_factory.mktemp("packed")
    for language in ("zh", "de"):
        about = {"about": "A test.", "languages": (language, "en"), "comes_from": "a test"}
        pack(translator_run(folder / f"run-{language}", language), folder / language, about, scores={"made up": bleu(100.0)})
    return folder


@pytest.fixture
def two_translators(packed, home):
    """Two added translators, test-zh and test-de, whose cards claim better scores than those of the shipped ones."""
    home.mkdir(parents=True)
    for language in ("zh", "de"):
        (home / f"test-{language}").symlink_to(packed / language)
    return home
