"""The two ways that the work is done: compiled loops, or numpy where there is no compiler.

Both give the same answers.  The compiled one is taken where the package was compiled at install;
`GOQUEUE_SPARK_DECODER=numpy` asks for the other.
"""

import os
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.model.batch import Buffer
from goqueue.model.errors import InvalidSetting
from goqueue.spark.columns import compiled, joining, lockstep, onepass
from goqueue.spark.columns.blocks import Blocks
from goqueue.spark.columns.fields import Fields, Integers, Slots
from goqueue.spark.columns.layout import Depth
from goqueue.spark.columns.rows import Bytes, Rows

VARIABLE = "GOQUEUE_SPARK_DECODER"


class Scan(Protocol):
    def __call__(self, blocks: Blocks, depth: Depth, *, with_timestamps: bool) -> Fields: ...


class Engine(NamedTuple):
    """What differs between the two."""

    name: str
    scan: Scan
    gather: Callable[[Buffer, Slots], pa.Array]
    pack: Callable[[Rows, Integers, Integers], list[Buffer]]
    key_hashes: Callable[[Bytes], npt.NDArray[np.uint32]]


NUMPY = Engine("numpy", lockstep.scan, lockstep.gather, joining.pack, joining.key_hashes)
COMPILED = Engine("compiled", compiled.scan, compiled.gather, compiled.pack, compiled.key_hashes)


@cache
def choose() -> Engine:
    """The engine for this process; raises `InvalidSetting`."""
    match os.environ.get(VARIABLE):
        case None | "":
            return COMPILED if is_compiled() else NUMPY
        case "numpy":
            return NUMPY
        case "compiled" if is_compiled():
            return COMPILED
        case "compiled":
            raise InvalidSetting(f"{VARIABLE}=compiled, but this install has no compiled modules")
        case other:
            raise InvalidSetting(f"{VARIABLE}={other!r}: use numpy or compiled")


def is_compiled() -> bool:
    return str(onepass.__file__).endswith(tuple(EXTENSION_SUFFIXES))
