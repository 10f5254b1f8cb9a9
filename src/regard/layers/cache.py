"""The key-value cache of autoregressive decoding.

Axes: B batch, h key heads, L new tokens, N cached tokens, d width.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

__all__ = ["Cache", "LayerCache"]


class _Storage:
    """Preallocated keys and values; rows [0, filled) are never written again, so forks may share it."""

    def __init__(self, key: Tensor, value: Tensor, filled: int) -> None:
        self.key, self.value, self.filled = key, value, filled

    @property
    def capacity(self) -> int:
        return self.key.shape[2]


def _ordinary() -> AbstractContextManager[object]:
    """A context that creates ordinary tensors even in inference mode, so that a cache filled there can be extended outside it."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


class LayerCache:
    """The keys and values of one attention layer.

    `append` adds L new tokens and returns all cached keys and values that their queries may need, oldest first, as views: (B, h, N, d)
    each. Capacity doubles when it runs out (`room` reserves it beforehand), so n tokens cost O(n) copies. With `window` w, a token sees
    itself and the w − 1 before it; only those are kept, in a buffer of 2w. `length` counts all tokens appended so far and is the position
    of the next one.

    `fork` is a copy-on-write copy. `select` picks or repeats rows of the batch.

    window: how many tokens a token sees, itself included; None: all.
    room: tokens to reserve memory for.

    Raises ValueError for a window below 1.

    >>> cache = LayerCache()
    >>> k = torch.randn(2, 4, 3, 8)
    >>> keys, values = cache.append(k, k)
    >>> keys, values = cache.append(k[:, :, :1], k[:, :, :1])
    >>> keys.shape, cache.length
    (torch.Size([2, 4, 4, 8]), 4)
    """

    def __init__(self, *, window: int | None = None, room: int = 0) -> None:
        if window is not None and window < 1:
            raise ValueError(f"window is {window}; expected at least 1, the token itself")
        self.window = window
        self.length = 0
        self._reserve = room
        self._storage: _Storage | None = None
        self._begin = self._end = 0

    @property
    def kept(self) -> int:
        """How many tokens are cached."""
        return self._end - self._begin

    @property
    def bytes(self) -> int:
        """Memory allocated, spare capacity included."""
        return 0 if self._storage is None else self._storage.key.nbytes + self._storage.value.nbytes

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add a `key` and `value` (B, h, L, d) of L new tokens; return all cached ones, (B, h, N, d) each."""
        new = key.shape[2]
        self._check(key, value)
        if self.window is not None:
            self._begin = max(self._begin, self._end - (self.window - 1))
        if torch.is_grad_enabled() and (key.requires_grad or (self._storage is not None and self._storage.key.requires_grad)):
            # Writing in place would overwrite tensors saved by autograd, so with a gradient the cache is copied.
            old = self._views()
            joined = (key, value) if old is None else (torch.cat([old[0], key], 2), torch.cat([old[1], value], 2))
            self._storage, self._begin, self._end = _Storage(*joined, joined[0].shape[2]), 0, joined[0].shape[2]
        else:
            storage = self._space(key, value)
            storage.key[:, :, self._end : self._end + new] = key
            storage.value[:, :, self._end : self._end + new] = value
            self._end += new
            storage.filled = self._end
        self.length += new
        views = self._views()
        assert views is not None
        return views

    def fork(self) -> "LayerCache":
        """A copy that shares storage until both append."""
        twin = LayerCache(window=self.window, room=self._reserve)
        twin.length, twin._storage, twin._begin, twin._end = self.length, self._storage, self._begin, self._end
        return twin

    def select(self, index: Tensor) -> "LayerCache":
        """A new cache whose batch row i is this one's row index[i]."""
        twin = self.fork()
        if self._storage is not None:
            with _ordinary():  # copied with its spare capacity, so that the next append need not copy again
                key, value = self._storage.key.index_select(0, index), self._storage.value.index_select(0, index)
            twin._storage = _Storage(key, value, self._end)
        return twin

    def _views(self) -> tuple[Tensor, Tensor] | None:
        if self._storage is None:
            return None
        return self._storage.key[:, :, self._begin : self._end], self._storage.value[:, :, self._begin : self._end]

    def _space(self, key: Tensor, value: Tensor) -> _Storage:
        """A storage whose rows from `_end` on this cache may write."""
        storage = self._storage
        if storage is not None and storage.filled == self._end and storage.capacity >= self._end + key.shape[2]:
            return storage
        views = self._views() or (key[:, :, :0], value[:, :, :0])
        return self._adopt(*views, spare=key.shape[2])

    def _adopt(self, key: Tensor, value: Tensor, spare: int) -> _Storage:
        """Move to a new storage that begins with these rows and has at least `spare` rows after them."""
        kept = key.shape[2]
        capacity = max(kept + spare, 2 * self.window if self.window is not None else max(2 * kept, self._reserve, 16))
        with _ordinary():
            fresh = [torch.empty(*x.shape[:2], capacity, x.shape[3], dtype=x.dtype, device=x.device) for x in (key, value)]
        storage = _Storage(fresh[0], fresh[1], kept)
        storage.key[:, :, :kept] = key
        storage.value[:, :, :kept] = value
        self._storage, self._begin, self._end = storage, 0, kept
        return storage

    def _check(self, key: Tensor, value: Tensor) -> None:
        if key.dim() != 4 or value.dim() != 4 or key.shape[:3] != value.shape[:3]:
            shapes = f"{tuple(key.shape)} and {tuple(value.shape)}"
            raise ValueError(f"key and value must be (B, h, L, d) with the same B, h, L; they are {shapes}")
        if self._storage is not None and key.shape[:2] != self._storage.key.shape[:2]:
            cached, new = tuple(self._storage.key.shape[:2]), tuple(key.shape[:2])
            raise ValueError(
                f"the cache has batch and heads {cached}, the new keys have {new}; start a new cache, or select() rows of this one"
            )


class Cache(Sequence[LayerCache]):
    """One LayerCache per layer of a model.

    layers: how many.
    window: as in :class:`LayerCache`, one number for all layers or one per layer (None: no window).
    room: as in :class:`LayerCache`.

    Raises ValueError if there are not as many windows as layers.

    >>> cache = Cache(4, window=128)
    >>> len(cache), cache.length
    (4, 0)
    """

    def __init__(self, layers: int, *, window: int | Sequence[int | None] | None = None, room: int = 0) -> None:
        windows = [window] * layers if window is None or isinstance(window, int) else list(window)
        if len(windows) != layers:
            raise ValueError(f"{len(windows)} windows given for {layers} layers; give one per layer, or a single number for all")
        self._layers = [LayerCache(window=each, room=room) for each in windows]

    @property
    def length(self) -> int:
        """Tokens appended so far: the position of the next one."""
        return self._layers[0].length if self._layers else 0

    @property
    def bytes(self) -> int:
        """Bytes of all cached keys and values."""
        return sum(layer.bytes for layer in self._layers)

    def fork(self) -> "Cache":
        """A copy that shares storage until both append."""
        return self._of([layer.fork() for layer in self._layers])

    def select(self, index: Tensor) -> "Cache":
        """A new cache whose batch row i is this one's row index[i]."""
        return self._of([layer.select(index) for layer in self._layers])

    def __getitem__(self, layer: int) -> LayerCache:  # type: ignore[override]
        return self._layers[layer]

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[LayerCache]:
        return iter(self._layers)

    @staticmethod
    def _of(layers: list[LayerCache]) -> "Cache":
        cache = Cache(0)
        cache._layers = layers
        return cache
