"""What the C library does with memory that a session gave back."""

from __future__ import annotations

# glibc's malloc.h.
_M_MMAP_THRESHOLD = -3


def give_back_freed_memory(threshold_bytes: int = 65536) -> bool:
    """Has memory that is freed go back to the system, from now on.

    For sessions without an arena, whose tensors glibc's malloc would keep once
    they are dead, in pieces that later ones do not fit into. Holds for the whole
    process: each buffer of `threshold_bytes` or more is mapped on its own, which
    takes some time. The same as MALLOC_MMAP_THRESHOLD_ in the environment.

    Returns False where the C library has no such setting, as on macOS or Windows.
    """
    import ctypes
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Windows has no CDLL(None)
        return False
    return mallopt(_M_MMAP_THRESHOLD, threshold_bytes) == 1
