"""Who waits for a commit hears of it once, or why not; in a partition: `test_commit_timeouts`."""

import asyncio
import math

import pytest

from goqueue.broker.storage.commit_waits import CommitWaits
from goqueue.model.errors import LeadershipLost, TimedOut
from goqueue.model.ids import Offset

Future = asyncio.Future[None]


def waits(**deadlines: float) -> tuple[CommitWaits, list[Future]]:
    """For offsets 0, 1…"""
    found, futures = CommitWaits(), []
    for offset, deadline in enumerate(deadlines.values()):
        futures.append(asyncio.get_running_loop().create_future())
        found.add(Offset(offset), futures[-1], deadline)
    return found, futures


async def test_those_below_the_watermark_are_released():
    some, (first, second) = waits(first=math.inf, second=math.inf)
    some.release(Offset(1))
    assert first.done()
    assert not second.done()
    assert some
    some.release(Offset(2))
    assert second.done()
    assert not some


async def test_those_whose_time_is_over_fail_and_the_others_wait():
    some, (early, late, patient) = waits(early=1.0, late=5.0, patient=math.inf)
    assert some.end_overdue(2.0, lambda offset: TimedOut(f"offset {offset}"))
    with pytest.raises(TimedOut, match="offset 0"):
        await early
    assert not late.done()
    assert not some.end_overdue(6.0, lambda offset: TimedOut(f"offset {offset}"))
    with pytest.raises(TimedOut, match="offset 1"):
        await late
    assert not patient.done()


async def test_who_has_gone_is_told_nothing():
    some, (gone, there) = waits(gone=1.0, there=1.0)
    gone.cancel()
    some.refuse(lambda: LeadershipLost("another node leads"))
    assert gone.cancelled()
    with pytest.raises(LeadershipLost):
        await there
    assert not some
