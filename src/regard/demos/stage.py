"""How every demonstration is run: draw in the terminal, or give its numbers as JSON, or save a figure."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from regard.demos.drawing import Board, text
from regard.terminal import Pen


def play(run: Callable[[], Any], show: Callable[[Any], Board], about: str | None, argv: Sequence[str] | None = None) -> None:
    """Run a demonstration as a program. ``run`` gives a dataclass of plain numbers, ``show`` the pictures of it."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead of drawing")
    parser.add_argument("--save", metavar="FILE", help="also save the picture: .svg, .png or .pdf (needs matplotlib)")
    parser.add_argument("--plain", action="store_true", help="no colour (the default when the output is not a terminal)")
    parser.add_argument("--colour", action="store_true", help="24-bit colour even when the output is not a terminal")
    parser.add_argument("--light", action="store_true", help="the terminal's background is light")
    given = parser.parse_args(argv)
    with torch.random.fork_rng(devices=[]):  # demonstrations fix their own seeds and leave the caller's stream alone
        result = run()
    board = show(result)
    if given.json:
        print(json.dumps(asdict(result), ensure_ascii=False, indent=2))
    else:
        pen = Pen.detect(sys.stdout)
        pen = replace(pen, colour=(pen.colour or given.colour) and not given.plain, dark=pen.dark and not given.light)
        print(text(board, pen))
    if given.save:
        from regard.demos.figures import save

        target = save(board, given.save)
        print(f"saved {target}", file=sys.stderr)
