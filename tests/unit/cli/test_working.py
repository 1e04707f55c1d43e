"""A command for each message: how it ends is what becomes of the message."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.cli import working
from goqueue.cli.working import Worker, variables
from goqueue.client import Delivery
from goqueue.client.errors import ReceiptExpired, ServerUnreachable


def delivery(offset: int = 0, value: bytes | None = b"value", **fields: Any) -> Delivery:
    wanted: dict[str, Any] = {
        "topic": "jobs",
        "partition": 0,
        "offset": offset,
        "timestamp": 0,
        "key": None,
        "value": value,
        "headers": (),
        "receipt": f"receipt {offset}",
        "priority": "normal",
        "attempt": 1,
        "failures": 0,
        "timeouts": 0,
        "visible_until": 0,
    }
    return Delivery(**{**wanted, **fields})


class Client:
    """Gives the deliveries or raises the errors that it was made with, then nothing."""

    def __init__(self, *given: Delivery | Exception) -> None:
        self.given = list(given)
        self.acked: list[int] = []
        self.nacked: list[str] = []

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def queue_settings(self, _group: str) -> dict[str, int]:
        return {"visibility_ms": 30_000}

    async def receive(self, *_: object, **__: object) -> list[Delivery]:
        found = self.given.pop(0) if self.given else None
        if isinstance(found, Exception):
            raise found
        return [] if found is None else [found]

    async def ack(self, delivered: Delivery) -> None:
        if delivered.timeouts:
            raise ReceiptExpired("another one has it", code="receipt_expired", status=410)
        self.acked.append(delivered.offset)

    async def nack(self, delivered: Delivery, *, reason: str) -> list[Any]:
        self.nacked.append(reason)

        class Settled:
            action = "dead" if delivered.failures else "requeued"

        return [Settled]


async def work(
    client: Client, *command: str, limit: int | None = None, tell: Callable[[str], None] = print
) -> Worker:
    worker = Worker(
        "jobs",
        "workers",
        "ann",
        list(command),
        workers=1,
        visibility_ms=None,
        limit=limit,
        until_empty=True,
        tell=tell,
    )
    await worker.run(lambda: client)  # type: ignore[arg-type, return-value]
    return worker


async def test_a_command_that_ends_well_acks_and_gets_the_value(tmp_path):
    client = Client(delivery(0, b"one\n"), delivery(1, b"two\n"))
    file = tmp_path / "got"
    worker = await work(client, f"cat >> {file}")
    assert client.acked == [0, 1]
    assert (worker.acked, worker.failed) == (2, 0)
    assert file.read_text() == "one\ntwo\n"


async def test_a_command_that_fails_nacks_with_what_it_said():
    client, told = Client(delivery(0), delivery(1, failures=2)), list[str]()
    worker = await work(client, "echo broken >&2; exit 3", tell=told.append)
    assert client.nacked == ["exit 3: broken", "exit 3: broken"]
    assert (worker.acked, worker.failed) == (0, 2)
    assert told[0].endswith("will be redelivered")
    assert told[1].endswith("is a dead letter now")


async def test_a_command_that_is_not_there_is_a_failure_of_the_message():
    client = Client(delivery(0))
    await work(client, "/there/is/no/such/program", "with", "arguments")
    assert len(client.nacked) == 1
    assert "No such file" in client.nacked[0]


async def test_an_ack_that_came_too_late_is_told():
    client, told = Client(delivery(0, timeouts=1), delivery(1)), list[str]()
    worker = await work(client, "true", tell=told.append)
    assert client.acked == [1]
    assert worker.acked == 1
    assert told[0] == "jobs/0/0: another one has it"


async def test_no_more_messages_are_taken_than_were_asked_for():
    client = Client(delivery(0), delivery(1), delivery(2))
    worker = await work(client, "true", limit=2)
    assert worker.acked == 2
    assert len(client.given) == 1


async def test_a_server_that_is_away_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(working, "AGAIN_SECONDS", 0.0)
    client, told = Client(ServerUnreachable("nobody"), delivery(0)), list[str]()
    await work(client, "true", tell=told.append)
    assert client.acked == [0]
    assert told[0] == "nobody; trying again"


async def test_a_server_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(working, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(working, "RECONNECT_TIMEOUT_SECONDS", -1.0)
    with pytest.raises(ExceptionGroup) as gone:
        await work(Client(ServerUnreachable("nobody")), "true")
    assert gone.group_contains(ServerUnreachable)


def test_a_command_is_told_about_its_message():
    told = variables(
        delivery(
            7,
            key=b"k\0\xff",
            headers=(("tenant-id", b"a"), ("gr\xfc\xdfe", None)),
            priority="high",
            attempt=2,
        )
    )
    assert told["GOQUEUE_OFFSET"] == "7"
    assert told["GOQUEUE_PRIORITY"] == "high"
    assert told["GOQUEUE_KEY"] == "k\N{REPLACEMENT CHARACTER}"
    assert told["GOQUEUE_HEADER_tenant_id"] == "a"
    assert told["GOQUEUE_HEADER_gr__e"] == ""
