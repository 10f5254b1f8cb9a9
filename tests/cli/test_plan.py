"""`regard plan`."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import regard


def _run(*arguments: str, code: int = 0) -> Any:
    result = regard("plan", *arguments)
    assert result.exit_code == code, result.output
    return result


def test_gpt3_explains_itself_in_both_conventions() -> None:
    output = _run("gpt3", "--explain").stdout
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert "attention 4 · d_model · d_head · heads · layers = 4 · 12,288 · 128 · 96 · 96 = 57,982,058,496" in lines
    textbook, style = (output.index(title) for title in ("parameters, textbook", "parameters, GPT-2-style"))
    assert textbook < output.index("175,181,291,520") < style < output.index("174,604,259,328")


def test_a_table_has_both_conventions() -> None:
    output = _run("gpt3").stdout
    assert "GPT-2-style" in output
    assert "textbook" in output
    for number in ("174,604,259,328", "175,181,291,520", "57,982,058,496"):
        assert number in output


def test_a_config_with_options_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "num_key_value_heads": 8}))
    after = _run(str(path), "--context", "131072", "--batch", "1", "--dtype", "bf16", "--json").stdout
    before = _run("--context", "131072", "--batch", "1", "--dtype", "bf16", "--json", str(path)).stdout
    assert json.loads(after) == json.loads(before)
    cache = sum(part["value"] for part in json.loads(after)["cache"].values())
    assert cache == 2 * 32 * 8 * 128 * 131072 * 2


def test_a_model_may_be_called_like_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "measure").mkdir()
    (tmp_path / "measure" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    monkeypatch.chdir(tmp_path)
    for arguments in (["./measure"], ["show", "measure"]):
        assert json.loads(_run(*arguments, "--json").stdout)["total"]["value"] == 124_439_808


def test_training_with_a_given_roofline() -> None:
    result = json.loads(
        _run("gpt2", "--train", "--checkpointing", "--optimizer", "sgd", "--peak-tflops", "100", "--bandwidth", "900", "--json").stdout
    )
    assert result["machine"] == {"name": "given", "flops": 100e12, "bandwidth": 900e9, "threads": 0}
    assert "checkpointing" in result["steps"]["train"]["needed"]
    assert "adamw states" not in result["memory"]["streamed"]
    assert result["steps"]["train"]["roof"]["bound"] in ("arithmetic", "memory")


def test_this_machine_bounds_the_time() -> None:
    output = _run("gpt2", "--dtype", "fp32", "--roofline").stdout
    assert "measured" in output
    assert "bound by" in output


def test_compare() -> None:
    output = _run("compare", "gpt2", "gpt2-medium").stdout
    assert "gpt2-medium" in output
    rows = json.loads(_run("compare", "gpt2", "gpt2-medium", "--json").stdout)
    assert rows["parameters"] == {"unit": "", "first": 124_439_808, "second": 354_823_168}
    assert rows["names"] == ["gpt2", "gpt2-medium"]


def test_measure_prints_prediction_measurement_and_ratio() -> None:
    data = json.loads(_run("measure", "--json", "--seconds", "1", "--sizes", "64,128,256", "--heads", "2", "--head-dim", "16").stdout)
    points = [point for curve in (*data["times"], *data["bytes"]) for point in curve["points"]]
    assert all({"tokens", "measured", "predicted", "ratio"} <= point.keys() for point in points)
    assert data["formulas"]["crossover at N"] == "2 · d_model = 2 · 32 = 64"
    output = _run("measure", "--seconds", "1", "--sizes", "64,128,256", "--heads", "2", "--head-dim", "16").stdout
    for word in ("predicted", "measured", "ratio", "recurrence", "O(N·d²)"):
        assert word in output


def test_weights_beside_their_config(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=16)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    for source in (tmp_path, tmp_path / "model.safetensors"):
        assert "equal" in _run(str(source)).stdout
        assert json.loads(_run(str(source), "--json").stdout)["file"]["equal"] is True
    save_file({"w": torch.zeros(3)}, tmp_path / "model.safetensors")
    assert "fewer" in _run(str(tmp_path), code=1).stdout
    assert json.loads(_run(str(tmp_path), "--json", code=1).stdout)["file"]["equal"] is False


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_of_growth(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"growth.{ending}"
    _run("llama-3-8b", "--context", "16384", "--picture", str(path))
    start = path.read_bytes()[:200]
    assert (b"<?xml" in start) if ending == "svg" else start.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt-33"], "no model is called 'gpt-33'; did you mean gpt3"),
        (["zzzzzz"], "no model is called 'zzzzzz'; give a preset's name"),
        (["./nowhere/config.json"], "does not exist"),
        (["gpt2", "--dtype", "bf61"], "unknown dtype 'bf61'; did you mean bf16"),
        (["gpt2", "--context", "9999"], "learned positions for 1,024 tokens only"),
        (["gpt2", "--peak-tflops", "100"], "needs both --peak-tflops and --bandwidth"),
        (["gpt2", "--picture", "x.gif"], "a figure is saved as .svg, .png, .pdf"),
        (["compare", "gpt2", "gpt9"], "no model is called 'gpt9'"),
        (["measure", "--sizes", "512,256"], "three or more rising whole numbers"),
    ],
)
def test_mistakes_are_errors_with_exit_code_2(arguments: list[str], message: str) -> None:
    result = _run(*arguments, code=2)
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_the_list_names_every_preset() -> None:
    from regard.cost import presets

    output = _run("list").stdout
    assert all(name in output for name in presets())
    assert json.loads(_run("list", "--json").stdout)["gpt3"] == 174_604_259_328


def test_help_lists_the_subcommands() -> None:
    assert "compare" in _run("--help").stdout


LLAMA = ["llama-3-8b", "--context", "1048576", "--peak-tflops", "400", "--bandwidth", "3350"]


def test_a_million_tokens_on_64_accelerators_from_the_command_line() -> None:
    done = _run(*LLAMA, "--train", "--checkpointing", "--fsdp", "--ranks", "64", "--link", "50", "--json")
    rows = json.loads(done.output)["ranks"]
    assert [row["ranks"] for row in rows] == [1, 2, 4, 8, 16, 32, 64]
    assert rows[-1]["tokens"] == 16_384
    peaks = [sum(part["value"] for part in row["memory"].values()) for row in rows]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < 80e9 < peaks[0]


def test_ranks_need_a_link() -> None:
    assert "--ranks needs --link" in _run(*LLAMA, "--ranks", "4", code=2).stderr
    output = _run(*LLAMA, "--ranks", "4", "--link", "50", "--explain").stdout
    assert "sent per rank with 4 ranks, bytes" in output
    assert "(ranks − 1)" in output
