"""Garbage collection that passes over what stays.

Spark keeps its Python processes, and after every task, plan and commit has them look for garbage
among all objects there are.  Nearly all of those belong to modules, which stay: looking at them
took a process some hundred milliseconds of CPU time, more than a small task.
"""

import functools
import gc
import sys


def freeze_gc() -> None:
    """Have later collections pass over what is there now, if there are new modules in it."""
    _freeze(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _freeze(modules: int) -> None:
    """Once for each number of modules: what is frozen while in use is never collected."""
    gc.freeze()
