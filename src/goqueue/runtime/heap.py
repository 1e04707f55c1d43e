"""How glibc keeps memory that was freed.

A broker takes and frees buffers of up to some megabytes all the time: requests, and what is read
for answers.  By itself glibc gives each back to the kernel and takes it anew, and the kernel clears
every page once more: a third of what large requests cost (docs/benchmarks.md).  Other libcs are
left alone.
"""

import ctypes
from typing import Final

KEPT_BYTES: Final = 32 * 1024 * 1024  # at the heap's end, free; more of it goes back to the kernel
M_TRIM_THRESHOLD: Final = -1  # of malloc.h
M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """False where it cannot be set: then requests cost more, and nothing else differs."""
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 # musl has a mallopt that does nothing
        mallopt = libc.mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)) and bool(
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    )
