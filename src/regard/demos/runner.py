"""Run a demonstration as a program: draw it in the terminal, print its numbers as JSON, or save a figure."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from regard.demos.panels import Board
from regard.demos.text_output import board_text
from regard.terminal import Pen


def run_program(run: Callable[[], Any], show: Callable[[Any], Board], about: str | None, argv: Sequence[str] | None = None) -> None:
    """Run a demonstration as a program. ``run`` returns a dataclass of numbers, ``show`` its panels; ``about`` is the text of --help."""
    name = run.__module__.rpartition(".")[2]
    program = None if name == "__main__" else f"regard demo {name}"
    parser = argparse.ArgumentParser(program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead of drawing")
    parser.add_argument("--save", metavar="FILE", help="also save a figure: .svg, .png or .pdf (needs matplotlib)")
    parser.add_argument("--plain", action="store_true", help="no colour (the default if the output is not a terminal)")
    parser.add_argument("--colour", action="store_true", help="24-bit colour even if the output is not a terminal")
    parser.add_argument("--light", action="store_true", help="colours for a terminal with a light background")
    options = parser.parse_args(argv)
    if options.save:
        from regard.plotting import figure_file

        figure_file(options.save)  # an unknown file type must fail before the work, not after it
    with torch.random.fork_rng(devices=[]):  # demonstrations set seeds; the caller's random state is restored
        result = run()
    board = show(result)
    if options.json:
        print(json.dumps(asdict(result), ensure_ascii=False, indent=2))
    else:
        pen = Pen.detect(sys.stdout)
        pen = replace(pen, colour=(pen.colour or options.colour) and not options.plain, dark=pen.dark and not options.light)
        print(board_text(board, pen))
    if options.save:
        from regard.demos.figure_output import save_board

        target = save_board(board, options.save)
        print(f"saved {target}", file=sys.stderr)
