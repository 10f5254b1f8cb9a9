"""What does watching cost? A model's forward pass with SDPA, and the same pass under `watch` with all default readings.

A 4-layer, 8-head, 512-wide decoder of transformers; each way in a fresh process, its time the best of a few passes and its memory the
process's high-water mark above what it held before. What eager attention with `output_attentions` would need is measured at a length
that fits in memory and extrapolated with N².
    python benchmarks/watch.py [--tokens 32768] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time

SMALL = 2048  # tokens at which eager attention is measured
WAYS = {"sdpa": "SDPA, unwatched", "watched": "watched, our kernels", "own": "watched, kernel='own'"}


def peak() -> int:
    """The process's resident high-water mark in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(way: str, tokens: int, threads: int, rounds: int) -> None:
    import torch
    from transformers import LlamaConfig, LlamaModel

    from regard.sight import watch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000, hidden_size=512, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8,
        max_position_embeddings=tokens, attn_implementation="eager" if way == "eager" else "sdpa", use_cache=False,
    )  # fmt: skip
    model = LlamaModel(config).eval()

    def forward(ids: torch.Tensor) -> dict[str, float]:
        if way in ("sdpa", "eager"):
            model(ids, output_attentions=way == "eager")
            return {}
        with watch(model, kernel="own" if way == "own" else "auto") as seen:
            model(ids)
        proof = seen.proof
        return {"holds": proof.holds, "row_sums": proof.row_sum_error, "output": proof.output_error, "kept": seen.kept_bytes}

    with torch.no_grad():
        forward(torch.randint(0, 1000, (1, 128)))
        ids = torch.randint(0, 1000, (1, tokens))
        before, best = peak(), float("inf")
        for _ in range(rounds):
            start = time.perf_counter()
            proof = forward(ids)
            best = min(best, time.perf_counter() - start)
    print(json.dumps({"seconds": best, "bytes": peak() - before, **proof}))


def measure(way: str, tokens: int, threads: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--run", way, "--tokens", str(tokens), "--threads", str(threads), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--run", choices=[*WAYS, "eager"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.run, args.tokens, args.threads, args.rounds)
        return
    print(f"{platform.processor() or platform.machine()}, {args.threads} threads; 4 layers, 8 heads, width 512, {args.tokens:,} tokens")
    print(f"{'':24} {'seconds':>9} {'× SDPA':>8} {'MB':>8} {'MB more':>8}  proof")
    base: dict[str, float] = {}
    for way, name in WAYS.items():
        got = measure(way, args.tokens, args.threads, args.rounds)
        base = base or got
        proof = f"{'holds' if got['holds'] else 'DOES NOT HOLD'}, output {got['output']:.0e}" if "holds" in got else ""
        ratio, more = got["seconds"] / base["seconds"], (got["bytes"] - base["bytes"]) / 1e6
        print(f"{name:24} {got['seconds']:9.2f} {ratio:8.2f} {got['bytes'] / 1e6:8.0f} {more:8.0f}  {proof}")
    small = min(SMALL, args.tokens)
    eager = measure("eager", small, args.threads, args.rounds)
    grown = (args.tokens / small) ** 2
    print(f"{f'eager, {small:,} tokens':24} {eager['seconds']:9.2f} {'':8} {eager['bytes'] / 1e6:8.0f}")
    print(f"{f'eager, {args.tokens:,}, grown':24} {eager['seconds'] * grown:9.0f} {'':8} {eager['bytes'] / 1e6 * grown:8,.0f}")
    print("targets at 32,768 tokens: at most 2.00 × SDPA, at most 500 MB more")


if __name__ == "__main__":
    main()
