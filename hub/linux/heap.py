"""Memory that the C library keeps for large blocks, or returns to the system (glibc: mallopt(3), malloc_trim(3))."""

import ctypes
from typing import Final

MALLOPT: Final = ((-3, 32 << 20), (-1, 64 << 20), (-2, 4 << 20))
"""Parameters of glibc and their values: `M_MMAP_THRESHOLD` (the most that 64 bits allow), `M_TRIM_THRESHOLD`,
`M_TOP_PAD`. See mallopt(3)."""


def keep_large_blocks() -> None:
    """Have the C library use the memory of large messages again; without `mallopt` do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in MALLOPT:
            mallopt(parameter, value)


def trimmer() -> "ctypes._NamedFuncPointer | None":
    """The C library's `malloc_trim`; None: it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
