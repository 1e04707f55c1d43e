"""A barrier: neither an answer nor a refusal leaves before what it rests on is committed."""

import asyncio

import pytest

from goqueue.broker.barrier import Barrier, settle_refusals
from goqueue.model.errors import InvalidRequest, StorageFailed, TimedOut


class Host:
    """A machine whose log is committed when the test says so."""

    def __init__(self) -> None:
        self.committed = asyncio.Event()
        self.asked = 0

    async def wait_settled(self, about: object = None) -> None:
        self.asked += 1
        await self.committed.wait()

    @settle_refusals
    async def decide(self, answer: str | Exception) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer


class FailedHost(Host):
    async def wait_settled(self, about: object = None) -> None:
        raise StorageFailed("the log is read-only")


async def look(barrier: Barrier, answer: str | BaseException) -> str:
    async with barrier:
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def let_run(task: "asyncio.Future[str]") -> bool:
    """Whether it is done when nothing but the log is left to wait for."""
    for _ in range(5):
        await asyncio.sleep(0)
    return task.done()


async def test_an_answer_waits_for_every_host():
    first, second = Host(), Host()
    asking = asyncio.create_task(look(Barrier(first, second), "found"))
    first.committed.set()
    assert not await let_run(asking)
    second.committed.set()
    assert await asking == "found"


async def test_a_refusal_waits_as_an_answer_does():
    host = Host()
    asking = asyncio.create_task(look(Barrier(host), InvalidRequest("no")))
    assert not await let_run(asking)
    host.committed.set()
    with pytest.raises(InvalidRequest):
        await asking


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()])
async def test_what_is_no_answer_does_not_wait(error: BaseException):
    host = Host()
    with pytest.raises(type(error)):
        await look(Barrier(host), error)
    assert host.asked == 0


@pytest.mark.parametrize("answer", ["found", InvalidRequest("it is there")])
async def test_what_a_failed_log_may_lose_is_never_told(answer: str | Exception):
    with pytest.raises(StorageFailed):
        await look(Barrier(FailedHost()), answer)


async def test_refusals_of_a_verb_are_settled():
    host = Host()
    asking = asyncio.ensure_future(host.decide(InvalidRequest("no")))
    assert not await let_run(asking)
    host.committed.set()
    with pytest.raises(InvalidRequest):
        await asking


async def test_answers_of_a_verb_are_its_own_to_settle():
    host = Host()
    assert await host.decide("found") == "found"
    assert host.asked == 0


async def test_a_time_out_is_told_although_the_log_is_slow():
    host = Host()
    with pytest.raises(TimedOut):
        await host.decide(TimedOut("too slow"))
    assert host.asked == 0


async def test_a_refusal_is_not_told_when_the_log_has_failed():
    """It may rest on what a restart does not know."""
    with pytest.raises(StorageFailed):
        await FailedHost().decide(InvalidRequest("it is there"))
