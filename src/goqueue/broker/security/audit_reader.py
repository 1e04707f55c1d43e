"""The audit log as administrators search it: the topic of all nodes, from any node."""

from typing import Final

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.cluster.coordinator_topics import AUDIT_TOPIC
from goqueue.broker.messages.read import read_page
from goqueue.broker.messages.remote_partition import (
    Readable,
    offset_for_time,
    readable,
    visible_end,
)
from goqueue.model.errors import PolicyViolation
from goqueue.model.ids import Offset, Timestamp
from goqueue.security import AuditEvent, AuditFilter

SCANNED_MAX: Final = 20_000  # events that one search looks at
PAGE_EVENTS: Final = 1_000
PAGE_BYTES: Final = 4 * 1024 * 1024


class AuditPage(msgspec.Struct, frozen=True):
    events: list[tuple[Offset, AuditEvent]]
    """The oldest first."""
    next_offset: Offset
    """From where a further search goes on."""
    is_end: bool
    """Whether nothing newer was there."""


class AuditReader:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def search(
        self,
        wanted: AuditFilter,
        limit: int,
        *,
        offset: Offset | None = None,
        since: Timestamp | None = None,
        until: Timestamp | None = None,
    ) -> AuditPage:
        """The first `limit` events from `offset`, or `since`; without both the last ones."""
        if not self._broker.audit.has_topic:
            raise PolicyViolation(
                "no audit log is kept that could be searched: it needs auth.enabled,"
                " audit.enabled and audit.topic"
            )
        topic = self._broker.metadata.find(AUDIT_TOPIC)
        if topic is None:  # nothing has happened yet
            return AuditPage([], Offset(0), is_end=True)
        partition = await readable(self._broker, topic, 0)
        end = await visible_end(self._broker, partition)
        stop = end
        if until is not None:
            found = await offset_for_time(self._broker, partition, until)
            stop = end if found is None else min(found, end)
        if offset is None and since is None:
            return await self._search_back(partition, wanted, limit, stop)
        start = offset
        if start is None and since is not None:
            start = await offset_for_time(self._broker, partition, since)
        first = max(end if start is None else start, partition.log.start_offset)
        return await self._search_on(partition, wanted, limit, Offset(first), stop)

    async def _search_on(
        self, partition: Readable, wanted: AuditFilter, limit: int, start: Offset, stop: Offset
    ) -> AuditPage:
        found: list[tuple[Offset, AuditEvent]] = []
        at, last = start, Offset(min(stop, start + SCANNED_MAX))
        while at < last and len(found) < limit:
            events, after = await _read(partition, at, last)
            for place, event in events:
                at = Offset(place + 1)
                if wanted.matches(event):
                    found.append((place, event))
                    if len(found) == limit:
                        return AuditPage(found, at, is_end=at >= stop)
            if after <= at and not events:
                break
            at = max(at, after)
        return AuditPage(found, at, is_end=at >= stop)

    async def _search_back(
        self, partition: Readable, wanted: AuditFilter, limit: int, stop: Offset
    ) -> AuditPage:
        """The last ones that match: page by page towards the beginning."""
        found: list[tuple[Offset, AuditEvent]] = []
        first = Offset(max(partition.log.start_offset, stop - SCANNED_MAX))
        end = stop
        while end > first and len(found) < limit:
            begin = Offset(max(first, end - PAGE_EVENTS))
            page = await self._search_on(partition, wanted, PAGE_EVENTS, begin, end)
            found = [*page.events, *found]
            end = begin
        return AuditPage(found[-limit:], stop, is_end=True)


async def _read(
    partition: Readable, offset: Offset, end: Offset
) -> tuple[list[tuple[Offset, AuditEvent]], Offset]:
    page = await read_page(partition, offset, limit=PAGE_EVENTS, bytes_max=PAGE_BYTES, end=end)
    found = []
    for record in page.records:
        try:
            event = msgspec.json.decode(record.value or b"", type=AuditEvent)
        except msgspec.MsgspecError:
            continue  # of a newer release
        found.append((Offset(record.offset), event))
    return found, page.next_offset
