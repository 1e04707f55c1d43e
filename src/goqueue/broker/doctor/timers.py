"""The timers of a partition's delayed messages, as the doctor finds and repairs them.

What is lost of their log may be which messages wait.  So they go back to where they had read the
delay log before the damage, and read on from there; what was delivered or cancelled since, as far
as it is known, is not delivered again.
"""

from collections.abc import Iterable

from goqueue.broker.doctor.internal_logs import Place, Replayed, replay
from goqueue.broker.storage.backups import SNAPSHOTS
from goqueue.broker.storage.bundle import TIMERS
from goqueue.delay import DelayMachine, DelayRecord
from goqueue.delay.records import Cancelled, Delivered, Expired, pack
from goqueue.model.ids import Offset, Timestamp
from goqueue.runtime import Disk

MEANING = (
    "what was cancelled, rescheduled or delivered then: those delayed messages may come once more"
)


def replay_timers(
    disk: Disk, data_dir: str, topic: str, index: int, now: Timestamp
) -> Replayed | None:
    """None when the partition has none."""
    log = f"logs/{topic}/{index}/{TIMERS}"
    place = Place(f"{topic}-{index} ({TIMERS})", log, f"{log}/{SNAPSHOTS}", MEANING)
    if not disk.exists(f"{data_dir}/{place.log}"):
        return None
    found = replay(disk, data_dir, place, lambda: DelayMachine(now))
    if found.lost:
        found.machine = _salvage(found, now)
    return found


def _salvage(found: Replayed, now: Timestamp) -> DelayMachine:
    first_lost = min(each.first_offset for each in found.lost)
    is_base_sound = bool(found.base) or not first_lost
    machine = DelayMachine(now)
    if is_base_sound:
        _apply_all(machine, found.base)
        _apply_all(machine, (value for offset, value in found.values if offset < first_lost))
    for offset, value in found.values:
        if offset >= first_lost:
            _apply_ending(machine, machine.decode(value))
    return machine


def _apply_all(machine: DelayMachine, values: Iterable[bytes]) -> None:
    for value in values:
        machine.apply(machine.decode(value))


def _apply_ending(machine: DelayMachine, record: DelayRecord) -> None:
    """Of messages that the machine may come to know only when it reads the delay log again."""
    match record:
        case Delivered() | Expired():
            machine.apply(record)
        case Cancelled(offset=offset) if offset >= machine.indexed_end:
            machine.apply(Delivered(pack((Offset(offset),)), machine.data_end))
        case Cancelled():
            machine.apply(record)
        case _:
            pass
