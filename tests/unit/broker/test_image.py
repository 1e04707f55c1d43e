"""An image shows what is committed of a machine, and nothing else."""

import asyncio

import pytest

from goqueue.model.errors import StorageFailed
from goqueue.testing.sim import SimDisk, run
from tests.unit.broker.test_machine_host import Added, Sum, add, opened, reopened

SNAPSHOTS = "/snapshots"


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
