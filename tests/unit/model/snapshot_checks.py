"""Holds every machine to what `Machine.snapshot` promises."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from goqueue.model.machine import Machine


def check_sliced_snapshot(
    make: Callable[[], Machine[Any]],
    log: Sequence[bytes],
    picture: Callable[[Any], object],
    *,
    begins_at: int,
    steps: Sequence[int],
) -> None:
    """A snapshot of the state at `begins_at`, read while the rest of the log is applied, is that.

    `steps` says how many records of the snapshot are read before each of the records that follow;
    what is left is read at the end.
    """
    machine = replay(make, log[:begins_at])
    expected = copy.deepcopy(picture(machine))
    reading = machine.snapshot()
    found = []
    for number, data in enumerate(log[begins_at:]):
        wanted = steps[number % len(steps)] if steps else 0
        found += [machine.encode(record) for _, record in zip(range(wanted), reading, strict=False)]
        machine.apply(machine.decode(data))
    found += [machine.encode(record) for record in reading]
    assert picture(replay(make, found)) == expected
    assert picture(replay(make, [*found, *log[begins_at:]])) == picture(machine)


def replay(make: Callable[[], Machine[Any]], log: Sequence[bytes]) -> Machine[Any]:
    machine = make()
    for data in log:
        machine.apply(machine.decode(data))
    return machine
