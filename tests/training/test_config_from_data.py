"""`regard train TASK DATA`: from a file of data to a trained model."""

import random
import re

import pytest

from regard.text.pairs import Pair, hold_out
from regard.training.config import read_config
from regard.training.config_from_data import config_for
from regard.training.tasks import find_task

WORDS = {"我": "I", "你": "you", "爱": "love", "看": "see", "书": "books", "猫": "cats", "山": "hills"}


def pairs(count: int, seed: int = 0) -> list[Pair]:
    chance = random.Random(seed)
    chosen = (chance.choice("我你") + chance.choice("爱看") + "".join(chance.sample("书猫山", chance.randint(1, 3))) for _ in range(count))
    return [Pair(source, " ".join(WORDS[c] for c in source)) for source in chosen]


def write(path, rows):
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in rows), encoding="utf-8")
    return path


def test_pairs_become_a_config_that_says_everything_and_is_not_overwritten(tmp_path):
    data = write(tmp_path / "mine.tsv", pairs(60))
    path = config_for("translation", data, tmp_path)
    assert path == tmp_path / "mine.toml"
    config = read_config(path, find_task("translation").config)
    assert (config.out, config.data.train, config.data.valid) == ("runs/mine", "mine.tsv", None)
    assert (config.source.kind, config.target.kind) == ("char", "bpe")  # Chinese on one side only
    assert (config.training.steps, config.training.warmup, config.model.state) == (500, 50, 256)  # few pairs: in minutes
    assert re.search(r"^state = 256 +# .*\(default 512\)$", path.read_text(encoding="utf-8"), flags=re.M)
    assert path.read_text(encoding="utf-8").count("#") >= find_task("translation").manual.count("#")
    path.write_text(path.read_text(encoding="utf-8").replace("steps = 500", "steps = 7"), encoding="utf-8")
    assert read_config(config_for("translation", data, tmp_path), find_task("translation").config).training.steps == 7
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"mine\.toml exists and trains on mine\.tsv, not .*other"):
        config_for("translation", write(tmp_path / "other" / "mine.tsv", pairs(5)), tmp_path)


def test_many_pairs_train_the_full_size_for_longer(tmp_path):
    config = read_config(config_for("translation", write(tmp_path / "many.tsv", pairs(9000)), tmp_path), find_task("translation").config)
    assert (config.training.steps, config.training.evaluate_every, config.model.state, config.data.batch_tokens) == (1800, 500, 512, 2000)


def test_a_chinese_target_is_scored_by_characters(tmp_path):
    data = write(tmp_path / "back.tsv", [Pair(p.target, p.source) for p in pairs(20)])
    config = read_config(config_for("translation", data, tmp_path), find_task("translation").config)
    assert (config.source.kind, config.target.kind, config.decoding.tokenize) == ("bpe", "char", "zh")


def test_text_and_stories_start_too_and_the_rest_says_what_it_needs(tmp_path):
    (tmp_path / "plays.txt").write_text("ROMEO: O!\n" * 9)
    assert read_config(config_for("lm", tmp_path / "plays.txt", tmp_path), find_task("lm").config).data.train == "plays.txt"
    (tmp_path / "qa1.txt").write_text("1 Mary went home.\n")
    assert read_config(config_for("reader", tmp_path / "qa1.txt", tmp_path), find_task("reader").config).out == "runs/qa1"
    with pytest.raises(ValueError, match="regard train mlm --example"):
        config_for("mlm", tmp_path / "plays.txt", tmp_path)


def test_held_out_sentences_are_not_trained_on_whichever_side_they_share():
    rows = [Pair(f"s{i % 70}", f"t{i % 45}") for i in range(300)]
    train, held = hold_out(rows, 0.1)
    assert len(held) == 7
    assert not {p.source for p in train} & {p.source for p in held}
    assert not {p.target for p in train} & {p.target for p in held}
    assert set(hold_out(rows[::-1], 0.1)[0]) == set(train)
    with pytest.raises(ValueError, match="leaves none to train on"):
        hold_out(rows[:1], 0.5)
    with pytest.raises(ValueError, match=r"held_out is 2\.0; expected a share"):
        hold_out(rows, 2.0)
