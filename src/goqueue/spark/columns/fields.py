"""Where the fields of records lie: what a scan finds."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32] | npt.NDArray[np.int64]


class Slots(NamedTuple):
    """Parts of a buffer, one after the other and none across another."""

    starts: Places
    lengths: Places  # -1: null


class HeaderSlots(NamedTuple):
    """All headers of all records."""

    lists: npt.NDArray[np.int32]  # a record's headers go from its number to the next record's
    names: Slots
    values: Slots


class Fields(NamedTuple):
    """An entry a record.  What was not looked for is None."""

    offsets: Integers
    timestamps: Integers | None  # milliseconds
    keys: Slots | None
    values: Slots | None
    headers: HeaderSlots | None
