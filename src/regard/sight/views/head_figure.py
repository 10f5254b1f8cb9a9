"""One head of a sighting as a figure, in any of the views."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .figures import pattern
from .word_figures import alignment, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..sighting import Head

_VIEWS: dict[str, Callable[..., Figure]] = {"map": pattern, "words": words, "lines": alignment}


def head_figure(head: Head, view: str, *, batch: int = 0, title: str | None = None, **options: Any) -> Figure:
    """Draw a head as a heat map ("map"), as shaded words ("words") or as two rows of words ("lines")."""
    from ..sighting import Sighting

    seen = head.seen
    if view not in _VIEWS:
        raise ValueError(f"view is {view!r}; expected one of {', '.join(map(repr, _VIEWS))}")
    items = seen.shape[0]
    if not 0 <= batch < items:
        raise IndexError(f"batch is {batch}; the sighting holds {items} batch items, 0 … {items - 1}")
    sighting = head.sighting or Sighting(_all=[seen])
    if title is None:
        name = f"{sighting.model}  " if sighting.model else ""
        title = f"{name}layer {seen.layer} · head {head.index}" + (f" · batch item {batch}" if items > 1 else "")
    call = [other for other in sighting if other.layer == seen.layer].index(seen)
    return _VIEWS[view](sighting, seen.layer, head.index, call=call, batch=batch, title=title, **options)
