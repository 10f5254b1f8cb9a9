"""Keep the memory that a training step frees, for the next step."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # constants of glibc's malloc.h


def keep_memory() -> bool:
    """Make glibc keep freed memory instead of returning it to the kernel; return False if the C library is not glibc.

    A training step allocates the same large tensors again and again. By default glibc returns each to the kernel, which clears and maps
    its pages anew: a sixth of the time of a small model's step. Instead the process stays at its peak of memory.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all(mallopt(option, value) == 1 for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 1 << 26)))
