from dataclasses import dataclass, field
from typing import Literal

import pytest

from regard.training.config import ConfigError, from_dict, read_config


@dataclass(frozen=True)
class Small:
    kind: Literal["small"] = "small"
    width: int = 3


@dataclass(frozen=True)
class Large:
    kind: Literal["large"] = "large"
    depth: int = 9

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(f"depth is {self.depth}; it cannot be negative")


@dataclass(frozen=True)
class Learning:
    rate: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    betas: tuple[float, float] = (0.9, 0.98)
    files: str | tuple[str, ...] = "a"
    on: bool = False
    limit: int | None = None


@dataclass(frozen=True)
class Whole:
    out: str
    model: Small | Large
    learning: Learning = field(default_factory=Learning)


def read(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    return read_config(tmp_path / "c.toml", Whole)


def test_tables_become_dataclasses(tmp_path):
    config = read(
        tmp_path,
        'out = "runs/a"\n[model]\nkind = "large"\ndepth = 2\n[learning]\nrate = 1\nbetas = [0.5, 0.6]\nfiles = ["x", "y"]\nlimit = 4\n',
    )
    assert config == Whole("runs/a", Large(depth=2), Learning(rate=1.0, betas=(0.5, 0.6), files=("x", "y"), limit=4))
    assert isinstance(config.learning.rate, float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'out = "a"\n[model]\nkind = "small"\n[learning]\n# rate\nrat = 1\n',
            r"c\.toml:6: \[learning\] there is no key 'rat'; did you mean 'rate'\?",
        ),
        ('out = "a"\n[model]\nkind = "small"\n[lerning]\nrate = 1\n', r"c\.toml:4: there is no table 'lerning'; did you mean 'learning'\?"),
        ('out = "a"\n[model]\nkind = "small"\n[learning]\nrate = "fast"\n', r"c\.toml:5: \[learning\] rate is 'fast'; expected a number"),
        ('out = "a"\n[model]\nkind = "small"\n[learning]\nrate = true\n', r"rate is True; expected a number"),
        ('out = "a"\n[model]\nkind = "small"\n[learning]\non = 1\n', r"on is 1; expected true or false"),
        ('out = "a"\n[model]\nkind = "small"\nwidth = 2.5\n', r"c\.toml:4: \[model\] width is 2\.5; expected a whole number"),
        (
            'out = "a"\n[model]\nkind = "small"\n[learning]\nschedule = "cosin"\n',
            r"'cosin'; expected one of .*did you mean 'cosine'\?",
        ),
        ('out = "a"\n[model]\nkind = "small"\n[learning]\nbetas = [1.0]\n', r"betas is \[1\.0\]; expected a list of 2"),
        ('out = "a"\n[model]\nkind = "smal"\n', r"c\.toml:3: \[model\] kind is 'smal'; did you mean 'small'\?"),
        ('out = "a"\n[model]\nwidth = 1\n', r"kind is None; known: small, large"),
        ('out = "a"\n[model]\nkind = "large"\nwidth = 1\n', r"there is no key 'width'"),
        ('out = "a"\n[model]\nkind = "large"\ndepth = -1\n', r"c\.toml:2: \[model\] depth is -1; it cannot be negative"),
        ('[model]\nkind = "small"\n', r"the key 'out' is missing"),
        ('out = "a"\n', r"the table 'model' is missing"),
        ('out = "a"\nmodel = 3\n', r"model is 3; expected a table"),
        ("out = \n", r"c\.toml: Invalid value"),
    ],
)
def test_every_mistake_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_the_same_key_in_two_tables_is_found_in_the_right_one(tmp_path):
    text = 'out = "a"\n[learning]\nrate = 1\n[model]\nkind = "small"\nrate = 2\n'
    with pytest.raises(ConfigError, match=r"c\.toml:6: \[model\]"):
        read(tmp_path, text)


def test_a_config_comes_back_from_json():
    assert from_dict({"out": "a", "model": {"kind": "small", "width": 5}, "learning": {"files": ["b"]}}, Whole) == Whole(
        "a", Small(width=5), Learning(files=("b",))
    )
