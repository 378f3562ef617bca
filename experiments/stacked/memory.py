"""How a process that trains a stack keeps its memory."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of glibc's parameters, in malloc.h
AT_MOST = 2**30  # bytes


def keep_freed_memory() -> None:
    """Tells glibc to keep what is freed for the next step.

    Tensors of a stack are so large that it would give them back at once, and have the system clear new pages each step.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # other C libraries have none
        library.mallopt(TRIM_THRESHOLD, AT_MOST)
        library.mallopt(MMAP_THRESHOLD, AT_MOST)
