"""What the worker keeps between jobs: the models opened last, the labels of their heads, and the sightings looked at last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .library import Library, Model, check
from .memory import free_bytes, refuse_above
from .worker import Progress

if TYPE_CHECKING:
    from ..sight import Labels, Sighting
    from ..training.opened import OpenedModel
    from ..training.tasks.translation import Translations

MOST_MODELS, MOST_SIGHTS = 6, 3
LONG = 512  # tokens from which more threads help


class Shelf(OrderedDict[str, Any]):
    """The things used last, at most so many.

    >>> shelf = Shelf(2)
    >>> [shelf.get_or(name, lambda: name.upper()) for name in ("a", "b", "a", "c")], list(shelf)
    (['A', 'B', 'A', 'C'], ['a', 'c'])
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def get_or(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self:
            while len(self) >= self.most:
                self.popitem(last=False)
            self[name] = make()
        self.move_to_end(name)
        return self[name]


class Bench:
    """The library, the progress of the job at hand, and what earlier jobs left."""

    def __init__(self, library: Library, progress: Progress, threads: int = 1) -> None:
        self.library, self.progress, self._threads = library, progress, threads
        self._opened, self._labels = Shelf(MOST_MODELS), Shelf(MOST_MODELS)
        self._inputs, self._sights = Shelf(MOST_SIGHTS), Shelf(MOST_SIGHTS)
        self._numbers = 0

    def threads_for(self, tokens: int) -> None:
        """Few tokens on one thread, which beats several that wait for each other; many on all."""
        import torch

        torch.set_num_threads(1 if tokens < LONG else self._threads)

    def opened(self, name: str) -> OpenedModel:
        """A model ready to read a text."""
        from ..zoo import open as open_model

        model = self.library.find(name)
        return self._opened.get_or(name, lambda: open_model(self._path(model), loader="transformers"))  # type: ignore[no-any-return]

    def encoded(self, name: str, text: str) -> Any:
        """What the model is called with to read a text. A translator has to write a translation first, so that is made once."""
        if self.library.find(name).kind != "translator":
            return self.opened(name).inputs(text)
        return self._inputs.get_or(f"{name}\n{text}", lambda: self.opened(name).inputs(text))

    def translator(self, name: str) -> Translations:
        """A translator: the same object as `opened`."""
        return self.opened(name)  # type: ignore[return-value]

    def labels(self, name: str) -> Labels | None:
        """What the model's heads do, where that can be told."""
        from ..sight import label_heads

        def make() -> Labels | None:
            try:
                return label_heads(self.opened(name).model)
            except (ValueError, TypeError, RuntimeError, IndexError):
                return None

        return self._labels.get_or(name, make)  # type: ignore[no-any-return]

    def keep(self, sighting: Sighting) -> str:
        """Keep a sighting for its exact zoom; gives its number."""
        self._numbers += 1
        self._sights.get_or(str(self._numbers), lambda: sighting)
        return str(self._numbers)

    def sight(self, number: str) -> Sighting | None:
        return self._sights.get(number)

    @staticmethod
    def _path(model: Model) -> Path:
        """Where to read a model from, once its files are known to be its own and to fit: as float32 they take up to twice their size."""
        path = model.check()
        check(path)
        files = [path] if path.is_file() else list(path.glob("*.safetensors"))
        refuse_above(free_bytes(), 3 * sum(file.stat().st_size for file in files), "opening the model")
        return path
