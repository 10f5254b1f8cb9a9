"""What the worker process keeps between jobs: the models, labels and sightings used most recently."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .library import Library, Model, check
from .memory import check_memory, free_bytes
from .request_error import RequestError
from .worker import Progress

if TYPE_CHECKING:
    from ..sight import Labels, Sighting
    from ..training.opened import OpenedModel
    from ..training.tasks.translation import Translations

MAX_MODELS, MAX_SIGHTINGS = 6, 3
THREADS_FROM = 512  # tokens from which several threads are faster than one


class RecentlyUsed(OrderedDict[str, Any]):
    """A cache of the `size` items used most recently.

    >>> cache = RecentlyUsed(2)
    >>> [cache.get_or_create(name, lambda: name.upper()) for name in ("a", "b", "a", "c")], list(cache)
    (['A', 'B', 'A', 'C'], ['a', 'c'])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def get_or_create(self, name: str, create: Callable[[], Any]) -> Any:
        """The item of that name; `create()` makes it if it is not in the cache."""
        if name not in self:
            while len(self) >= self.size:
                self.popitem(last=False)
            self[name] = create()
        self.move_to_end(name)
        return self[name]


class WorkerState:
    """The library, the progress of the current job, and the caches of models, labels, inputs and sightings."""

    def __init__(self, library: Library, progress: Progress, threads: int = 1) -> None:
        self.library, self.progress, self._threads = library, progress, threads
        self._opened, self._labels = RecentlyUsed(MAX_MODELS), RecentlyUsed(MAX_MODELS)
        self._inputs, self._sightings = RecentlyUsed(MAX_SIGHTINGS), RecentlyUsed(MAX_SIGHTINGS)
        self._count = 0

    def set_threads(self, tokens: int) -> None:
        """Use one thread for few tokens, where it is faster than several, and all threads for many."""
        import torch

        torch.set_num_threads(1 if tokens < THREADS_FROM else self._threads)

    def opened(self, name: str) -> OpenedModel:
        """An opened model."""
        from ..zoo import open as open_model

        model = self.library.find(name)
        return self._opened.get_or_create(name, lambda: open_model(self._path(model), loader="transformers"))  # type: ignore[no-any-return]

    def generator(self, name: str) -> Any:
        """A language model opened as a `Gpt` of regard, whichever way `opened(name)` opens it."""
        from ..models.gpt import Gpt
        from ..zoo import open as open_model

        opened = self.opened(name)
        if not isinstance(opened.model, Gpt) and self.library.find(name).writes:
            path = self._path(self.library.find(name))
            opened = self._opened.get_or_create(f"{name} as Gpt", lambda: open_model(path))
        if not isinstance(opened.model, Gpt):
            raise RequestError("not_writing", f"{name} is not a language model that regard can run as a Gpt", name=name)
        return opened

    def cached(self, name: str, create: Callable[[], Any]) -> Any:
        """An opened model kept under a name of its own, such as that of a run whose weights change."""
        return self._opened.get_or_create(name, create)

    def encoded(self, name: str, text: str) -> Any:
        """The model's inputs for a text. Those of a translator include its translation, so they are cached."""
        if self.library.find(name).kind != "translator":
            return self.opened(name).inputs(text)
        from .target_text import target_text

        opened = self.translator(name)
        self.set_threads(THREADS_FROM)  # decoding reads all weights for every token: two threads read them faster
        return self._inputs.get_or_create(f"{name}\n{text}", lambda: opened.inputs(text, target=target_text(opened, text)))

    def translator(self, name: str) -> Translations:
        """An opened translator: the same object as `opened(name)`."""
        return self.opened(name)  # type: ignore[return-value]

    def labels(self, name: str) -> Labels | None:
        """The labels of the model's heads; None if it cannot be labelled."""
        from ..sight import label_heads

        def create() -> Labels | None:
            try:
                return label_heads(self.opened(name).model)
            except (ValueError, TypeError, RuntimeError, IndexError):
                return None

        return self._labels.get_or_create(name, create)  # type: ignore[no-any-return]

    def keep(self, sighting: Sighting) -> str:
        """Keep a sighting, so that exact weights can be computed from it later; return its number."""
        self._count += 1
        self._sightings.get_or_create(str(self._count), lambda: sighting)
        return str(self._count)

    def sighting(self, number: str) -> Sighting | None:
        """A sighting that was kept; None if it has been dropped."""
        return self._sightings.get(number)

    @staticmethod
    def _path(model: Model) -> Path:
        """The path of a model, after checking its files and the free memory: as float32 the weights take up to twice their size on disk."""
        path = model.check()
        check(path)
        files = [path] if path.is_file() else list(path.glob("*.safetensors"))
        check_memory(free_bytes(), 3 * sum(file.stat().st_size for file in files), "opening the model")
        return path
