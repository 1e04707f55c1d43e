"""Searching the audit log."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.security import audit_reader
from goqueue.broker.security.audit_reader import AuditReader
from goqueue.model.errors import PolicyViolation
from goqueue.model.ids import Offset, Timestamp
from goqueue.security import AuditFilter
from tests.unit.broker.brokers import play
from tests.unit.broker.security.test_audit import AUDITED, note


def test_the_last_ones_the_first_ones_and_those_of_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_reader, "PAGE_EVENTS", 7)

    async def story(broker: Broker) -> None:
        reader, clock = AuditReader(broker), broker.environment.clock
        assert (await reader.search(AuditFilter(), 5)).events == []
        for n in range(40):
            note(broker, f"User:{n % 10}", host=str(n))
        await clock.sleep(2)
        later = Timestamp(clock.now() - 500)
        note(broker, "User:late")
        await clock.sleep(1)

        async def hosts(wanted: AuditFilter, limit: int, **where: int) -> list[str]:
            page = await reader.search(wanted, limit, **where)  # type: ignore[arg-type]
            return [event.host for _, event in page.events]

        assert await hosts(AuditFilter(principal="3"), 2) == ["23", "33"]
        assert await hosts(AuditFilter(principal="3"), 9, offset=5) == ["13", "23", "33"]
        assert await hosts(AuditFilter(principal="3"), 1, until=later) == ["33"]
        page = await reader.search(AuditFilter(), 10, since=later)
        assert [event.principal for _, event in page.events] == ["User:late"]
        assert page.is_end
        assert page.next_offset == 41
        page = await reader.search(AuditFilter(), 3, offset=Offset(10))
        assert (page.next_offset, page.is_end) == (13, False)

    play(story, AUDITED)


def test_one_search_looks_at_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_reader, "SCANNED_MAX", 10)

    async def story(broker: Broker) -> None:
        for n in range(25):
            note(broker, f"User:{n}", host=str(n))
        await broker.environment.clock.sleep(1)
        page = await AuditReader(broker).search(AuditFilter(principal="20"), 5, offset=Offset(0))
        assert (page.events, page.next_offset, page.is_end) == ([], 10, False)

    play(story, AUDITED)


def test_without_the_topic_it_says_what_to_set() -> None:
    async def story(broker: Broker) -> None:
        with pytest.raises(PolicyViolation, match=r"audit\.topic"):
            await AuditReader(broker).search(AuditFilter(), 1)

    play(story)
