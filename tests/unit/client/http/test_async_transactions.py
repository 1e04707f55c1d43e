"""A transactional producer: when it begins, commits, aborts, and is over."""

from typing import Any

import msgspec
import pytest

from goqueue.api.transactions import Begun, ProducerBody
from goqueue.client.errors import Conflict, NoAnswer, Refused
from goqueue.client.http.async_transactions import AsyncTransactionalProducer
from goqueue.client.http.calls.call import Call


class FakeSender:
    """Does all that it is asked, unless told to fail; remembers what that was."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.failures: dict[str, Exception] = {}
        self.started = 0

    async def send(self, call: Call[Any]) -> Any:
        verb = call.path.rpartition("/")[2]
        self.asked.append(verb)
        self.bodies.append(msgspec.json.decode(call.body or b"{}"))
        if verb in self.failures:
            raise self.failures[verb]
        if verb == "init":
            self.started += 1
            return ProducerBody(**producer_fields(7, self.started))
        if verb == "begin":
            return Begun(**begun_fields(f"tx-{len(self.asked)}"))
        return None


def producer_fields(producer_id: int, epoch: int) -> dict[str, Any]:
    return fill(ProducerBody, producer_id=producer_id, epoch=epoch)


def begun_fields(transaction_id: str) -> dict[str, Any]:
    return fill(Begun, transaction_id=transaction_id)


def fill(kind: type[msgspec.Struct], **known: Any) -> dict[str, Any]:
    """Whatever else the body has is of no interest here."""
    names = (each.name for each in msgspec.structs.fields(kind) if each.required)
    return {**dict.fromkeys(names), **known}


@pytest.fixture
def sender() -> FakeSender:
    return FakeSender()


@pytest.fixture
def producer(sender: FakeSender) -> AsyncTransactionalProducer:
    return AsyncTransactionalProducer(sender, "billing", 5_000)


def fenced() -> Refused:
    return Conflict("another one", code="producer_fenced", status=409)


async def test_a_producer_is_started_once_and_each_block_commits(sender, producer):
    for _ in range(2):
        async with producer.transaction() as transaction:
            await transaction.ack("r")
    assert sender.asked == ["init", "begin", "acks", "commit", "begin", "acks", "commit"]
    first, second = (
        body for verb, body in zip(sender.asked, sender.bodies, strict=True) if verb == "commit"
    )
    assert first["transaction_id"] != second["transaction_id"]
    assert (first["producer_id"], first["epoch"]) == (7, 1)


async def test_an_error_in_the_block_aborts_and_is_raised(sender, producer):
    with pytest.raises(ValueError, match="mine"):
        async with producer.transaction():
            raise ValueError("mine")
    async with producer.transaction():
        pass
    assert sender.asked == ["init", "begin", "abort", "begin", "commit"]


async def test_a_block_that_is_cancelled_aborts(sender, producer):
    with pytest.raises(KeyboardInterrupt):
        async with producer.transaction():
            raise KeyboardInterrupt
    assert sender.asked[-1] == "abort"


async def test_a_commit_whose_fate_is_unknown_is_followed_by_an_abort(sender, producer):
    sender.failures["commit"] = NoAnswer("lost")
    with pytest.raises(NoAnswer):
        async with producer.transaction():
            pass
    assert sender.asked == ["init", "begin", "commit", "abort"]


async def test_a_producer_whose_abort_failed_is_started_anew(sender, producer):
    sender.failures["abort"] = NoAnswer("lost")
    with pytest.raises(ValueError, match="mine"):
        async with producer.transaction():
            raise ValueError("mine")
    async with producer.transaction():
        pass
    assert sender.asked == ["init", "begin", "abort", "init", "begin", "commit"]
    assert sender.bodies[-1]["epoch"] == 2


async def test_a_producer_whose_beginning_failed_is_started_anew(sender, producer):
    sender.failures["begin"] = NoAnswer("lost")
    with pytest.raises(NoAnswer):
        async with producer.transaction():
            raise AssertionError("it never began")
    sender.failures.clear()
    async with producer.transaction():
        pass
    assert sender.asked == ["init", "begin", "init", "begin", "commit"]


async def test_a_producer_that_is_fenced_is_over(sender, producer):
    sender.failures["commit"] = fenced()
    for _ in range(2):
        with pytest.raises(Conflict, match="another one"):
            async with producer.transaction():
                pass
    assert sender.asked == ["init", "begin", "commit"], "nothing is asked of the server any more"


@pytest.mark.parametrize("verb", ["begin", "abort"])
async def test_a_producer_that_learns_of_it_while_it_begins_or_aborts_is_over_too(
    sender, producer, verb
):
    async with producer.transaction():
        pass
    sender.failures[verb] = fenced()
    with pytest.raises((ValueError, Conflict)):
        async with producer.transaction():
            raise ValueError("mine")
    sender.asked.clear()
    with pytest.raises(Conflict, match="another one"):
        async with producer.transaction():
            pass
    assert sender.asked == [], "starting again would fence the other one"
