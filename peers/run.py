"""Run other projects' own tests on regard: python peers/run.py [--quick] [--only SUITE …] [--markdown FILE].

A suite's result is what fails with regard and passes without it. Such a failure must be listed in EXPECTED, with the reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from apt_source import unpack_tests

PEERS = Path(__file__).parent
BUILD = PEERS.parent / "build" / "peers"
FAMILIES = ("BERT", "GPT-2", "Llama", "Mistral", "Qwen2", "OPT", "ViT", "T5")  # of transformers_families.py

# Tests of other projects that regard fails and is meant to: a pattern of the name, and the reason.
EXPECTED: dict[str, str] = {
    r"^sdpa\[.*'dropout_p': 0\.5": "dropout draws other random numbers than torch: a hash of (seed, batch, head, row, column)",
    r"test_script_|test_transformerencoderlayer_subclass": "torch.jit.script compiles no function with keyword arguments",
    r"test_invalid_inputs_(1_dim|different_datatypes)": "regard raises a ValueError or TypeError where torch raises a RuntimeError",
    r"^check_sample_weight_equivalence_on_dense_data\[.*width='learn'": "leaving out one of two equal rows is not halving a weight",
    r"test_(entmax_correct_multiple_alphas|arbitrary_dimension)": "asks for alphas below 1, which regard refuses",
}


@dataclass
class Suite:
    """The outcome of one suite."""

    name: str
    version: str
    passed: int = 0
    peer_fails: int = 0  # the peer itself fails or skips these here
    expected: dict[str, int] = field(default_factory=dict)  # reason → how many
    unexpected: list[str] = field(default_factory=list)
    skipped: str = ""  # why the suite did not run

    def add(self, test: str, peer: str, outcome: str, message: str) -> None:
        if peer != "passed" or outcome == "skipped":
            self.peer_fails += 1
        elif outcome in ("passed", "xfail"):
            self.passed += 1
        elif reason := next((why for pattern, why in EXPECTED.items() if re.search(pattern, test)), None):
            self.expected[reason] = self.expected.get(reason, 0) + 1
        else:
            self.unexpected.append(f"{test}: {message}")


def version(package: str) -> str:
    from importlib.metadata import version

    return f"{package} {version(package)}"


def lines(script: str, suite: Suite, quick: bool) -> Suite:
    """A script that prints one JSON line a test."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PEERS / script), *(["--quick"] if quick else [])],
        env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        suite.unexpected.append(f"{script} stopped: {done.stderr.strip()[-500:]}")
    for line in done.stdout.splitlines():
        suite.add(**json.loads(line))
    return suite


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(PEERS), str(BUILD / "site"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **bfloat16_workaround(), **more}


@cache
def bfloat16_workaround() -> dict[str, str]:
    """Settings for a virtual machine whose processor claims matrix instructions (AMX) that it then refuses: torch itself dies there."""
    probe = "import torch; torch.nn.Linear(32, 32).bfloat16()(torch.ones(14, 32).bfloat16())"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == 0:
        return {}
    settings = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    print(f"torch dies of a linear layer in bfloat16 on this machine; peers run with {settings}", flush=True)
    return settings


def pytest_outcomes(folder: Path, files: list[str], plugin: str, regard: bool, select: str = "") -> Iterator[tuple[str, str, str]]:
    """(test, outcome, message) of a suite of pytest, run in a process of its own; a test that ends the process counts as failed."""
    report = BUILD / f"{plugin}-{int(regard)}.xml"
    report.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", plugin, "-p", "no:cacheprovider", "--noconftest", "-W", "ignore",
        "-o", "timeout=3600", f"--junitxml={report}", f"--rootdir={folder}", "-o", "addopts=", *(["-k", select] if select else []), *files,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, env=environment(REGARD_PEER=str(int(regard))), capture_output=True, text=True)
    if not report.exists():
        raise RuntimeError(f"pytest made no report: {' '.join(command)} in {folder}\n{(done.stdout + done.stderr)[-2000:]}")
    for case in ElementTree.parse(report).iter("testcase"):
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        outcome = "failed" if bad is not None else "skipped" if case.find("skipped") is not None else "passed"
        message = "" if bad is None else (bad.get("message") or "")[:300]
        yield f"{(case.get('classname') or '').rsplit('.', 1)[-1]}::{case.get('name')}", outcome, message


def compare(suite: Suite, folder: Path, files: list[str], plugin: str, select: str = "") -> Suite:
    """Run a suite without and with regard, side by side."""
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(lambda regard: list(pytest_outcomes(folder, files, plugin, regard, select)), (False, True))
    peer = {name: outcome for name, outcome, _ in before}
    for name, outcome, message in after:
        suite.add(name, peer.get(name, "missing"), outcome, message)
    return suite


def pip(*arguments: str) -> None:
    constraints = str(PEERS.parent / "constraints.txt")
    subprocess.run([sys.executable, "-m", "pip", *arguments, "-q", "--no-deps", "-c", constraints], check=True)


def installed(*packages: str) -> None:
    """Install into build/peers/site what is not installed."""
    (BUILD / "site").mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(BUILD / "site"))
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        pip("install", "--target", str(BUILD / "site"), *missing)


def torch_samples(quick: bool) -> Suite:
    installed("expecttest")
    return lines("samples.py", Suite("torch's samples of SDPA, multi-head and flex attention", version("torch")), quick)


def scikit_learn(quick: bool) -> Suite:
    return lines("scikit.py", Suite("scikit-learn's checks of the regressors", version("scikit-learn")), quick)


def entmax(quick: bool) -> Suite:
    installed("entmax")
    spec = importlib.util.find_spec("entmax")
    assert spec is not None
    assert spec.origin is not None
    folder = BUILD / "entmax"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(spec.origin).parent, folder, ignore=lambda _, names: [n for n in names if not n.startswith("test_")])
    files = (
        ["test_mask.py", "test_root_finding.py"] if quick else ["test_mask.py", "test_root_finding.py", "test_losses.py", "test_topk.py"]
    )
    return compare(Suite("entmax's tests, seeded", version("entmax")), folder, files, "entmax_plugin")


def transformers(quick: bool) -> Suite:
    suite = Suite("transformers' common tests of " + ", ".join(FAMILIES), version("transformers"))
    installed("parameterized")
    name = suite.version.replace(" ", "-")
    folder = BUILD / name
    if not folder.exists():
        if not (BUILD / f"{name}.tar.gz").exists():
            pip("download", "--no-binary", "transformers", "-d", str(BUILD), suite.version.replace(" ", "=="))
        with tarfile.open(BUILD / f"{name}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return compare(suite, PEERS, ["transformers_families.py"], "transformers_plugin", TRANSFORMERS_TESTS)


TRANSFORMERS_TESTS = (  # what runs attention; the mixin's other tests are of configs, weights, tokens and devices
    "eager_matches_sdpa or gradient_checkpointing or attention_outputs or batching_equivalence or sdpa_can_compile or determinism or "
    "sdpa_matches or hidden_states_output or retain_grad or training or model_outputs_equivalence"
)


def torch_test_transformers(quick: bool) -> Suite:
    """torch's test_transformers.py from a source package of this machine's own apt configuration."""
    suite = Suite("torch's test_transformers.py", "pytorch")
    installed("expecttest")
    folder = BUILD / "pytorch"
    try:
        tests = next(folder.glob("*/test"), None) or unpack_tests("pytorch", folder)
    except LookupError as error:
        suite.skipped = f"no source package of pytorch: {error}"
        return suite
    suite.version = tests.parent.name
    return compare(suite, tests, ["test_transformers.py"], "torch_plugin", f"not {REPEATED}")


# 1,920 of the 3,072 cases of one test, which takes every combination of its options but gives SDPA a mask only with set_attn_mask and
# without casual: without a mask the kind of the mask changes nothing, and every test starts from the same random numbers.
REPEATED = "(mask_vs_math and (set_attn_mask_False or casual_True) and (mask_dim_4 or bool_mask_True or set_attn_mask_True))"


SUITES: dict[str, Callable[[bool], Suite]] = {
    "samples": torch_samples,
    "entmax": entmax,
    "scikit-learn": scikit_learn,
    "transformers": transformers,
    "torch": torch_test_transformers,
}
QUICK = ("samples", "entmax")


def table(suites: list[Suite]) -> str:
    rows = ["| suite | passed | the project itself fails or skips | differs, with the reason | fails |", "|---|---:|---:|---|---:|"]
    for suite in suites:
        name = f"{suite.name} ({suite.version})"
        if suite.skipped:
            rows.append(f"| {name} | not run: {suite.skipped} | | | |")
            continue
        differs = "; ".join(f"{count}: {why}" for why, count in suite.expected.items())
        rows.append(f"| {name} | {suite.passed:,} | {suite.peer_fails:,} | {differs} | {len(suite.unexpected)} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the slice that runs with the tests, in about a minute")
    parser.add_argument("--only", nargs="+", choices=list(SUITES), help="these suites alone")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    names = arguments.only or (QUICK if arguments.quick else tuple(SUITES))
    results = []
    for name in names:
        result = SUITES[name](arguments.quick)
        results.append(result)
        print(f"{result.name}: " + (f"NOT RUN, {result.skipped}" if result.skipped else f"{result.passed} passed"), flush=True)
        for failure in result.unexpected:
            print(f"  FAILS {failure}", flush=True)
    print("\n" + table(results))
    if arguments.markdown:
        arguments.markdown.write_text(table(results) + "\n", encoding="utf-8")
    return int(any(result.unexpected for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
