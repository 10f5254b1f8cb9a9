"""Keep the memory a step frees for the next step."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's malloc.h


def keep_memory() -> bool:
    """Tell the C library to hold on to freed memory; False where it is not glibc and nothing was done.

    A training step allocates the same large tensors again and again. By default glibc gives each back to the kernel, which clears and
    maps it anew, page by page: a sixth of the time of a small model's step. The process keeps its peak instead, which it will need again.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all(mallopt(option, value) == 1 for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 1 << 26)))
