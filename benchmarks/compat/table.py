"""Write docs/compatibility.md from the results of run.py: `python benchmarks/compat/table.py [FOLDER] [PAGE]`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = {
    "transformers": "transformers", "timm": "timm", "torchvision": "torchvision", "diffusers": "diffusers",
    "x_transformers": "x-transformers", "vit_pytorch": "vit-pytorch", "sentence_transformers": "sentence-transformers",
    "written by hand": "",
}  # fmt: skip
REASONS = {  # why models have layers without weights, beside what `missed` says of them
    "autoformer": "it finds a few delays by autocorrelation and adds up the values shifted by each: one weight for a whole shift",
    "minimax": "its lightning attention carries a state from block to block, among the module's other operations",
    "mra": "without its CUDA kernel transformers returns zeros in place of its attention",
}
RECURRENCE = "its recurrence"
LARGEST = 1e-5  # difference of weights and outputs that counts as equal
INTRODUCTION = """# Which models `regard.watch` sees

Made by `make compat` (`benchmarks/compat/`): each model is tiny, has random weights, and is run unwatched, watched, watched with
`kernel="own"`, and under `regard.change`. A family of transformers is represented by its base model. A run that was stopped goes on
where it was, so that rows may be of several runs (said above a table); `make compat AGAIN=--again` checks all of them anew.

- **layers**: attention layers caught; a module that runs for two pictures, one after the other, is two. **modules**: the innermost
  modules named attention that ran; each of them must have been caught. A softmax that is no attention over tokens must not be.
- **weights from**: what exact weights are recomputed from: *interface* (queries and keys, as the model passes them to an attention
  function), *queries and keys* (found again in a model that computes attention itself), its *scores*, its *weights*, or *its recurrence*.
  Recurrent attention (the gated delta rule, Kimi delta attention, RWKV) carries a state from token to token and never makes weights; but
  given its queries, keys and gates its output is linear in the values, output = A · values, and A is read by running it again with
  one-hot values. A may be negative, and its rows need not sum to 1. A decoding step that continues from a state is named in `missed`.
- **weights**: largest difference from the attentions that the model itself returns with eager attention, where it returns any; if not
  all that it returns have the form of weights over all keys (Longformer returns windows), how many were compared. *eager* marks a model
  whose eager attention gives another output than its SDPA; there the weights are those of the watched eager model. WavLM returns the
  mean of its heads, which is compared with the mean, and SqueezeBERT its scores, which are compared after softmax. A row of BigBird that
  sees a block twice returns its weight once, and may differ by that factor of 2. *nan* marks a model whose eager attention returns no
  numbers at all, so that there is nothing to compare with.
- **output**: largest difference of the watched model's output from the unwatched one's. With `kernel="own"` all are equal to the bit,
  unless noted: torch's fused path of nn.MultiheadAttention is off inside a block. *double* marks a model that enlarges rounding errors
  (in float32 its weights or outputs differ by more than 1e-5; the number follows), compared in double precision.
- **what-if**: muting the first layer (or all, where the first does not reach it) changes the output, and a temperature of 1
  in every layer (without a softmax, a window wider than the text) leaves it as it is.

Models of transformers are also watched with eager attention, where their output must stay the same too.

A model that is *named* has layers that give no weights, which `seen.missed` lists with what to do; all its other layers are caught.
Layers that mix tokens without being attention (Mamba, convolutions, Fourier transforms) are not counted.

torchvision's wheels lack the operators `nms` and `qnms` beside this build of torch and cannot be imported; the script declares them
(`benchmarks/compat/torchvision_operators.py`), which is enough for models of attention.
"""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/compat")
    page = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/compatibility.md")
    parts = [INTRODUCTION]
    for library, package in LIBRARIES.items():
        results = [json.loads(path.read_text()) for path in sorted((folder / library).glob("*.json"))]
        if results:
            parts.append(section(library, package, results))
    page.write_text("\n".join(parts), encoding="utf-8")
    print(f"{page}: {sum(part.count(chr(10) + '| ') for part in parts)} rows")


def section(library: str, package: str, results: list[dict[str, Any]]) -> str:
    """Return the part of the page for one library: counts, what is not caught, and the table."""
    checked = [r for r in results if r["status"] == "checked" and (r["seen"] or r["missed"] or r["modules"])]
    without = [r["name"] for r in results if r["status"] == "checked" and r not in checked]
    broken = [r for r in results if r["status"] in ("failed", "crashed")]
    unbuilt = [f"{r['name']} ({why_not(r['error'])})" for r in results if r["status"] == "not built"]
    caught = [r for r in checked if is_caught(r)]
    named = [r for r in checked if not is_caught(r) and r["missed"] and not hidden(r)]
    silent = [r for r in checked if not is_caught(r) and r not in named]
    recurrent = [r for r in checked if any(RECURRENCE in source for source in r["from"])]
    try:
        title = f"{package} {version(package)}" if package else library
    except PackageNotFoundError:
        title = package
    counts = f"{len(caught)} of {len(checked)} caught completely"
    counts += f" ({len(recurrent)} of them have recurrent attention, read with one-hot values)" if recurrent else ""
    counts += f"; {len(named)} named in `missed`; {len(silent)} silent; {len(broken)} broken by watching.\n"
    lines = [f"## {title}\n", counts, f"{when(results)}\n"]
    lines += [f"- {reason(r)}" for r in named]
    inexact = [r["name"] for r in checked if not is_exact(r)]
    lines += [f"- Not exact, or what-if does not act: {', '.join(inexact)}."] if inexact else []
    lines += [f"- **{r['name']}** is SILENT: {', '.join(hidden(r)[:3] or r['unseen'][:3]) or 'nothing was caught'}" for r in silent]
    lines += [f"- **{r['name']}** BROKE: {r.get('error', r['status'])}" for r in broken]
    lines += ["", "| model | layers | modules | weights from | weights | output | what-if |", "|---|---|---|---|---|---|---|"]
    lines += [row(r) for r in checked]
    if without:
        lines.append(f"\nNo attention: {', '.join(without)}.")
    if unbuilt:
        lines.append(
            f"\nNot tried: {len(unbuilt)}, most of them with attention, because the script has no small config and inputs with which they "
            f"run unwatched: {', '.join(unbuilt)}."
        )
    return "\n".join(lines) + "\n"


def when(results: list[dict[str, Any]]) -> str:
    """Return of which runs the rows are."""
    runs = Counter(r.get("run") or "an older run" for r in results)
    if len(runs) == 1:
        return f"All rows are of one run, begun {next(iter(runs))} UTC."
    return "Rows are of several runs: " + ", ".join(f"{count} of {run}" for run, count in sorted(runs.items(), reverse=True)) + " (UTC)."


def hidden(r: dict[str, Any]) -> list[str]:
    """Return the attention modules that ran, were not caught, and are not named either."""
    named = [name.rpartition(" (")[0] or name for name, _ in r["missed"]]
    return [name for name in r["unseen"] if not any(other == name or other.startswith(name + ".") for other in named)]


def reason(r: dict[str, Any]) -> str:
    """Return what `missed` says of a model, and why."""
    label, advice = r["missed"][0]
    why = f"{REASONS[r['name']]}. " if r["name"] in REASONS else ""
    count = f"{len(r['missed'])} of {max(r['modules'], len(r['missed']))} modules"
    return f"**{r['name']}** is named ({count}): {why}`missed` says of {label}: {advice}."


def why_not(error: str) -> str:
    """Return in a few words why a model was not built."""
    kind, _, text = error.partition(": ")
    reasons = {
        "TookTooLong": "too large", "MemoryError": "too large", "ImportError": "needs a package", "OSError": "needs files",
        "LookupError": "no base model",
    }  # fmt: skip
    if kind in reasons:
        return reasons[kind]
    needed = {"inference_session": "a video session", "shared_kv_states": "another model's keys", "context_hidden_states":
        "another model's states", "retriever": "a retriever", "hidden_size_per_layer_input": "its default config is refused",
        "donut_swin": "its default config is refused", "No module named": "has no model of its own"}  # fmt: skip
    if (found := next((why for name, why in needed.items() if name in text), None)) is not None:
        return found
    if "missing" in text or "must be" in text or "specify" in text or "NoneType" in text or "unexpected keyword" in text:
        return "inputs"
    return "shapes" if kind in ("RuntimeError", "IndexError") else "config"


def is_caught(r: dict[str, Any]) -> bool:
    return r["seen"] > 0 and not r["missed"] and not r["unseen"]


def acts(what_if: dict[str, float]) -> bool:
    """Return whether muting changes the output, by more than rounding, and a neutral change by no more than that."""
    return what_if["muted"] > 4 * what_if["neutral"] and what_if["neutral"] <= LARGEST


def is_exact(r: dict[str, Any]) -> bool:
    """Return whether weights and outputs are the model's own, every proof holds, and what-if acts."""
    same = r["own"] and r["proof"] and r["output"] <= LARGEST and (r["weights"] is None or r["weights"] <= LARGEST)
    same = same and (r.get("double") or (r.get("in eager mode") or 0.0) <= LARGEST)
    return same and (not r["what-if"] or acts(r["what-if"]))


def row(r: dict[str, Any]) -> str:
    weights = "" if r["weights"] is None else f"{r['weights']:.0e}"
    if weights and r["unmatched"]:
        weights += f" ({r['expected'] - r['unmatched']} of {r['expected']})"
    weights += " eager" if r.get("eager") else ""
    weights += "nan" if r.get("eager is nan") and not weights else ""
    what_if = r["what-if"]
    works = "" if not what_if else "✓" if acts(what_if) else "✗"
    notes = ("" if r["own"] else " (own differs)") + (f" double ({r['single']:.0e})" if r.get("double") else "")
    made_from = ", ".join(RECURRENCE if RECURRENCE in source else source for source in r["from"])
    return f"| {r['name']} | {r['layers']} | {r['modules']} | {made_from} | {weights} | {r['output']:.0e}{notes} | {works} |"


if __name__ == "__main__":
    main()
