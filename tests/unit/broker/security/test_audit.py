"""Events on their way to the file and to the topic `__audit`."""

import msgspec

from goqueue.broker import Broker
from goqueue.broker.security import audit as audits
from goqueue.broker.security.audit_reader import AuditReader
from goqueue.model.config import AuditConfig, AuthConfig
from goqueue.model.errors import StorageFailed
from goqueue.security import AuditFilter
from tests.unit.broker.brokers import CONFIG, play

AUDITED = msgspec.structs.replace(CONFIG, auth=AuthConfig(enabled=True))
FILE = "/data/audit/audit.jsonl"


def note(broker: Broker, principal: str = "User:alice", **more: str) -> None:
    broker.audit.note("authorization", allowed=False, principal=principal, **more)


async def written(broker: Broker) -> list[str]:
    """The principals in the file and in the topic, which are the same."""
    await broker.environment.clock.sleep(1)
    data = broker.environment.disk.read_file(FILE) or b""
    found = [msgspec.json.decode(line)["principal"] for line in data.splitlines()]
    page = await AuditReader(broker).search(AuditFilter(), 10_000)
    assert [event.principal for _, event in page.events] == found
    return found


def test_events_are_in_the_file_and_in_the_topic() -> None:
    async def story(broker: Broker) -> None:
        note(broker)
        note(broker, "User:bob", resource=2_000 * "x")
        assert await written(broker) == ["User:alice", "User:bob"]
        assert broker.has_topic("__audit")
        assert broker.topics() == []

    play(story, AUDITED)


def test_what_waits_is_written_before_the_broker_stops() -> None:
    files = []

    async def story(broker: Broker) -> None:
        note(broker)
        await broker.audit.finish()
        files.append(broker.environment.disk.read_file(FILE))

    play(story, AUDITED)
    assert b"User:alice" in (files[0] or b"")


def test_what_a_flood_keeps_out_is_counted_in_the_log_itself() -> None:
    async def story(broker: Broker) -> None:
        for _ in range(500):
            note(broker, host="10.0.0.9")
        await broker.environment.clock.sleep(15)
        page = await AuditReader(broker).search(AuditFilter(kind="left_out"), 10)
        assert [event.count for _, event in page.events] == [400]
        assert broker.audit.left_out["authorization"] == 400

    play(story, AUDITED)


def test_a_file_that_cannot_be_written_is_tried_again_and_memory_stays_bounded() -> None:
    async def story(broker: Broker) -> None:
        real, is_broken = broker.audit._file.append, [True]

        def append(lines: bytes) -> None:
            if is_broken[0]:
                raise StorageFailed("no disk")
            real(lines)

        broker.audit._file.append = append  # type: ignore[method-assign]
        for n in range(audits.WAITING_MAX + 100):
            broker.audit.note("change", allowed=True, principal=f"User:{n}")
        await broker.environment.clock.sleep(5)
        assert broker.audit.failures["file"] > 1
        assert broker.audit.left_out["change"] >= 100
        is_broken[0] = False
        await broker.environment.clock.sleep(30)
        data = broker.environment.disk.read_file(FILE) or b""
        assert len(data.splitlines()) == audits.WAITING_MAX

    play(story, AUDITED)


def test_nothing_is_kept_without_logins_or_when_it_is_switched_off() -> None:
    async def story(broker: Broker) -> None:
        note(broker)
        await broker.environment.clock.sleep(1)
        assert not broker.audit.is_enabled
        assert broker.environment.disk.read_file(FILE) is None

    play(story)
    play(story, msgspec.structs.replace(AUDITED, audit=AuditConfig(enabled=False)))
