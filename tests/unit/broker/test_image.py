"""An image shows what is committed of a machine, and nothing else."""

import asyncio

import pytest

from goqueue.broker.image import Image
from goqueue.model.errors import StorageFailed
from goqueue.model.ids import Offset
from goqueue.testing.sim import SimDisk, run
from tests.unit.broker.test_machine_host import Added, Sum, add, opened, reopened

LOG = f"/log/{0:020d}.log"


def test_an_image_holds_what_is_committed():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        first = Sum()
        first.apply(Added(1))
        image = host.keep_image(first, Sum.apply)
        for number in (10, 100):
            shown = image.current.total
            host.write(lambda machine, number=number: machine.add(number))  # type: ignore[misc]
            host.defer(lambda machine: machine.add(1000))
            host.write(lambda machine: machine.add(10_000))
            while image.current.total < host.ahead.total:
                assert image.current.total == shown
                host.demand_sync()
                await asyncio.sleep(0.0001)
            for fate in range(3):
                assert (await reopened(disk.crash(fate))).total == image.current.total
        host.defer(lambda machine: machine.add(1000))
        assert image.current.total == host.ahead.total, "what is deferred shows at once"
        assert image.current.applied == host.ahead.applied
        disk.fail_sync(LOG)
        with pytest.raises(StorageFailed):
            await add(host, 7)
        assert image.current.total == host.ahead.total - 7

    run(story())


class Commits:
    """As much of a journal as an image asks for."""

    def __init__(self) -> None:
        self.high_watermark = 0

    def is_committed(self, offset: Offset) -> bool:
        return offset < self.high_watermark


def new_image() -> tuple[Image[Sum], Commits]:
    commits = Commits()
    return Image(Sum(), commits, Sum.apply), commits  # type: ignore[arg-type]


def value(number: int) -> bytes:
    return Sum().encode(Added(number))


def test_values_show_when_the_last_of_them_is_committed():
    image, commits = new_image()
    image.expect(Offset(1), [value(1), value(2)])
    image.expect(Offset(2), [value(10)])
    commits.high_watermark = 1
    assert image.current.total == 0
    commits.high_watermark = 2
    assert image.current.total == 3
    commits.high_watermark = 3
    assert image.current.total == 13


def test_deferred_values_show_after_what_was_before_them():
    image, commits = new_image()
    image.expect(Offset(0), [value(1)])
    image.expect(None, [value(10)])
    assert image.current.total == 0
    commits.high_watermark = 1
    assert image.current.total == 11


def test_what_an_earlier_journal_did_not_commit_never_shows():
    image, before = new_image()
    image.expect(Offset(0), [value(1)])
    image.expect(Offset(1), [value(10)])
    before.high_watermark = 1
    after = Commits()
    image.await_commits_of(after)  # type: ignore[arg-type]
    before.high_watermark = after.high_watermark = 2
    assert image.current.total == 1, "of the earlier journal what it committed until then"
    image.expect(Offset(2), [value(100)])
    assert image.current.total == 1
    after.high_watermark = 3
    assert image.current.total == 101


def test_a_snapshot_takes_the_place_of_what_was_shown():
    image, commits = new_image()
    replacement = Sum()
    image.replace(replacement)
    image.apply([value(5)])
    image.expect(Offset(0), [value(1)])
    commits.high_watermark = 1
    assert image.current is replacement
    assert image.current.total == 6
