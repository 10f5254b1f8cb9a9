"""Train five sizes of GPT on tiny Shakespeare at equal tokens with three seeds; print loss against parameters and seconds, and draw it.

    python recipes/gpt_sizes.py --data DATA --figure docs/gpt-sizes.svg

DATA has `tinyshakespeare/input.txt`. Every model sees 2,000 batches of 12 sequences of 64 characters (1.5 million characters, of one
million different ones); the learning rate falls with the width. Runs are in runs/gpt-SIZE-SEED: an interrupted one is resumed, a finished
one is only read. Seconds are the time of the steps as the log has them, on one thread; on a busy machine compare only their order.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev

from regard.training.opened import OpenedModel
from regard.training.runs import train
from regard.training.tasks.lm import LanguageModel

SIZES = {16: (1, 1), 32: (2, 2), 64: (4, 2), 128: (4, 4), 192: (6, 6)}  # width → (heads, layers)
SEEDS = (0, 1, 2)
CONFIG = """out = "{out}"
[data]
train = "{text}"
batch = 12
[vocabulary]
kind = "char"
[model]
d_model = {width}
heads = {heads}
layers = {layers}
context = 64
bias = false
[training]
steps = {steps}
rate = {rate}
warmup = 100
schedule = "cosine"
floor = 0.1
weight_decay = 0.1
betas = [0.9, 0.99]
evaluate_every = {steps}
checkpoint_every = 250
log_every = 50
keep = 1
seed = {seed}
"""


def run(width: int, seed: int, data: Path, runs: Path, steps: int) -> tuple[int, float, float]:
    """Train one model, or read its finished run; return its parameters, held-out loss and seconds of training."""
    heads, layers = SIZES[width]
    folder = runs / f"gpt-{width}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    text = (data / "tinyshakespeare/input.txt").resolve()
    config = folder.with_suffix(".toml")
    rate = min(4e-3, 2e-3 * (128 / width) ** 0.5)
    options = {"out": folder.name, "text": text, "width": width, "heads": heads, "layers": layers, "steps": steps, "rate": rate}
    config.write_text(CONFIG.format(**options, seed=seed), encoding="utf-8")
    state, _ = train("lm", config)
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    times = [row["time"] for row in log if row["event"] == "step"]
    # The fastest 50 steps, because others may have shared the machine during the rest.
    per_step = min((b - a) / 50 for a, b in pairwise(times))
    opened: OpenedModel = LanguageModel.open(folder)
    return sum(p.numel() for p in opened.model.parameters()), state.metrics["loss"], per_step * steps


def draw(rows: list[tuple[int, list[float], float]], path: Path) -> None:
    from regard.colours import HEADS, hexadecimal
    from regard.plotting import blank, figure_style, save_figure

    with figure_style([]):
        figure = blank(4.2, 2.6)
        axes = figure.subplots()
        colour = hexadecimal(HEADS[0])
        axes.plot([n for n, _, _ in rows], [mean(losses) for _, losses, _ in rows], color=colour, lw=1.2)
        for parameters, losses, _ in rows:
            axes.plot([parameters] * len(losses), losses, "o", ms=3, color=colour)
        axes.set(xscale="log", xlabel="parameters", ylabel="held-out loss, nats a character")
        save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    rows = []
    print("| width | layers | parameters | loss, seeds 0–2 | mean | seconds |\n|---|---|---|---|---|---|")
    for width, (_, layers) in SIZES.items():
        results = [run(width, seed, arguments.data, arguments.runs, arguments.steps) for seed in SEEDS]
        parameters, losses, seconds = results[0][0], [loss for _, loss, _ in results], min(s for _, _, s in results)
        rows.append((parameters, losses, seconds))
        each = ", ".join(f"{loss:.3f}" for loss in losses)
        print(f"| {width} | {layers} | {parameters:,} | {each} | {mean(losses):.3f} ± {stdev(losses):.3f} | {seconds:.0f} |", flush=True)
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
