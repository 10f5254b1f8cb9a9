"""Compare implementations: they alternate in one process, and the best of several rounds counts.

Other load on the machine only makes a run slower, so the best round is closest to what the code costs. A round during which other
processes took more than a fifth of the processors is repeated, while there is time.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
THREADS = int(os.environ.get("REGARD_BENCH_THREADS", "2"))
SECONDS = float(os.environ.get("REGARD_BENCH_SECONDS", "6"))  # spent on one comparison, about
FOREIGN = 0.2  # of the processors' time: a round in which other processes took more does not count
torch.set_num_threads(THREADS)


def alternate(
    contestants: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    seconds: float = SECONDS,
    between: Callable[[], object] | None = None,
    prepared: bool = False,
) -> dict[str, float]:
    """The best time of each contestant, run in turn: at least two rounds, then until the rounds or the seconds are used up.

    `between` is called before each turn and not timed. With `prepared` a contestant prepares itself, untimed, and returns the work to time.
    """
    best, disturbed = dict.fromkeys(contestants, float("inf")), dict.fromkeys(contestants, float("inf"))
    for contestant in contestants.values():
        (contestant() if prepared else contestant)()  # warm: threads, allocator, compilation
    start = time.perf_counter()
    quiet = 0
    for turn in range(4 * rounds):
        if quiet >= rounds or (turn >= 2 and time.perf_counter() - start > seconds):
            break
        foreign, times = Foreign(), {}
        for name, contestant in contestants.items():
            if between:
                between()
            work = contestant() if prepared else contestant
            before = time.perf_counter()
            work()
            times[name] = time.perf_counter() - before
        is_quiet = foreign.share() <= FOREIGN
        quiet += is_quiet
        for name, seconds_taken in times.items():
            disturbed[name] = min(disturbed[name], seconds_taken)
            if is_quiet:
                best[name] = min(best[name], seconds_taken)
    return best if quiet else disturbed


class Foreign:
    """The share of the processors' time that other processes took since this object was made; 0 where /proc does not say."""

    def __init__(self) -> None:
        self.before = self._seconds()

    def share(self) -> float:
        wall, busy, own = (now - before for now, before in zip(self._seconds(), self.before, strict=True))
        return max(0.0, busy - own) / max(wall * (os.cpu_count() or 1), 1e-9) if busy else 0.0

    @staticmethod
    def _seconds() -> tuple[float, float, float]:
        """Wall time, busy time of all processors, and this process's own, in seconds."""
        try:
            fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:
            return time.perf_counter(), 0.0, 0.0
        idle = fields[3] + fields[4]
        own = os.times()
        return time.perf_counter(), (sum(fields) - idle) / os.sysconf("SC_CLK_TCK"), own.user + own.system


def extra_memory(work: Callable[[], object]) -> int:
    """Peak memory of the work in bytes, above what the process uses now. Call it in a fresh process, after a small warm-up."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
        before = _status("VmRSS")
        work()
        return _status("VmHWM") - before
    except OSError:  # no such file: the mark is the process's own since its start
        import resource

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def machine() -> str:
    """The processor, the threads used, and the versions that matter."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    from regard.kernels.native import instruction_set

    threads, kernels = f"{THREADS} threads of {os.cpu_count()}", instruction_set() or "no compiled kernels"
    return f"{name}, {threads}, {kernels}, torch {torch.__version__}, Python {platform.python_version()}"


@dataclass
class Row:
    """One measurement, ours against one peer. `target` is the ratio to reach; None where there is none."""

    work: str
    peer: str
    ours: float  # seconds (or what `unit` says)
    theirs: float | None  # None: the peer could not run here, and `note` says why
    target: float | None = None
    unit: str = "s"
    note: str = ""
    rising: bool = False  # more is better: a share of a limit, ours/theirs
    at_most: bool = False  # ours/theirs, and the target is a ceiling

    @property
    def ratio(self) -> float | None:
        """How many times faster (or smaller) ours is; against a limit or a ceiling, what share of it."""
        if self.theirs is None:
            return None
        return self.ours / self.theirs if self.at_most or self.rising else self.theirs / self.ours

    @property
    def reached(self) -> bool | None:
        if self.target is None or self.ratio is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target


@dataclass
class Table:
    """The results of one benchmark: printed, and written as Markdown, JSON and SVG."""

    name: str
    question: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(_line(row), flush=True)

    def compare(self, work: str, times: Mapping[str, float], targets: Mapping[str, float | None] | None = None) -> None:
        """Rows of the first contestant, ours, against every other."""
        (_, ours), *others = times.items()
        for peer, theirs in others:
            self.add(Row(work, peer, ours, theirs, (targets or {}).get(peer)))

    def share(self, work: str, limit: str, reached: float, peak: float, target: float, unit: str) -> None:
        """A row of how much of the machine's limit is used."""
        self.add(Row(work, limit, reached, peak, target, unit, rising=True))

    def write(self) -> None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        machine_text = machine()
        text = [f"# {self.question}", "", machine_text, "", *markdown(self.rows)]
        for note in self.notes:
            text += ["", note]
        (RESULTS / f"{self.name}.md").write_text("\n".join(text) + "\n", encoding="utf-8")
        rows = [asdict(row) | {"ratio": row.ratio} for row in self.rows]
        data = {"question": self.question, "machine": machine_text, "rows": rows, "notes": self.notes}
        (RESULTS / f"{self.name}.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        self.draw()

    def draw(self) -> None:
        """Bars of the ratios, on a log scale, with a mark at each target."""
        from regard.colours import blue, hexadecimal
        from regard.plotting import blank, figure_style, save_figure

        rows = [row for row in self.rows if row.ratio]
        if not rows:
            return
        with figure_style(row.work for row in rows):
            figure = blank(7, 0.7 + 0.3 * len(rows))
            axes = figure.add_subplot()
            ratios = [row.ratio or 0.0 for row in rows]
            axes.barh(range(len(rows)), ratios, color=hexadecimal(blue(0.8, dark=False)), height=0.6)
            for y, row in enumerate(rows):
                if row.target is not None:
                    axes.plot([row.target] * 2, [y - 0.42, y + 0.42], color="black", linewidth=1)
                axes.annotate(f" {row.ratio:.2f}×", (row.ratio or 0.0, y), va="center")
            axes.set_yticks(range(len(rows)), [f"{row.work} · {row.peer}" for row in rows])
            axes.invert_yaxis()
            axes.set_xscale("log")
            axes.set_xlim(min(0.5, *ratios), max(ratios) * 2)
            axes.axvline(1, color="0.6", linewidth=0.6)
            axes.set_xlabel("ratio to the peer; the black mark is the target")
            axes.spines[["top", "right"]].set_visible(False)
        save_figure(figure, RESULTS / f"{self.name}.svg")


def _amount(x: float | None, unit: str) -> str:
    if x is None:
        return "—"
    if unit == "s":
        return f"{x:.3g} s" if x >= 1 else f"{x * 1e3:.3g} ms" if x >= 1e-3 else f"{x * 1e6:.3g} µs"
    return f"{x:.3g} {unit}"


def _cells(row: Row) -> list[str]:
    ratio = "—" if row.ratio is None else f"{row.ratio:.2f}×"
    target = "" if row.target is None else f"{'≤' if row.at_most else '≥'} {row.target:g}×"
    verdict = {True: "reached", False: "not reached", None: ""}[row.reached]
    amounts = [_amount(row.ours, row.unit), _amount(row.theirs, row.unit)]
    return [row.work, row.peer, *amounts, ratio, target, " ".join(filter(None, (verdict, row.note)))]


def markdown(rows: Sequence[Row]) -> list[str]:
    """The rows as the lines of a Markdown table."""
    head = ["| work | peer | ours | peer's | ratio | target | |", "|---|---|---:|---:|---:|---:|---|"]
    return head + ["| " + " | ".join(_cells(row)) + " |" for row in rows]


def _line(row: Row) -> str:
    work, peer, ours, theirs, ratio, target, verdict = _cells(row)
    return f"{work:52} {peer:28} {ours:>9} {theirs:>9} {ratio:>8} {target:>8}  {verdict}"


def main(*works: Callable[[], Table]) -> None:
    """Run the benchmarks of a file and write their results."""
    print(machine())
    for work in works:
        work().write()
    sys.stdout.flush()
