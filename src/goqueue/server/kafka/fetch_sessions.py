"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only changes.

    session epoch  -1   no session wanted (and the one named, if any, ends)
                    0   open a session with the partitions of this request
                   >0   the request holds changes only; the epoch must be the next in turn

The reply to an incremental fetch leaves out partitions of which there is nothing new to say.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode

from goqueue.broker.messages.fetch import FetchedPartition
from goqueue.runtime import Random
from goqueue.wire.fetch import FetchPartition, FetchRequest

Key = tuple[str | UUID, int]
PARTITIONS_MAX: Final = 200_000  # of all sessions together: some 60 MB
OPEN_EPOCH: Final = 0
_EPOCH_MAX = 2**31 - 1


class FetchSession:
    def __init__(self, session_id: int, tenant_id: str = "") -> None:
        self.session_id = session_id
        self.tenant_id = tenant_id  # whose it is
        self.epoch = 1
        self.partitions: OrderedDict[Key, FetchPartition] = OrderedDict()
        self._told: dict[Key, tuple[int, int, int]] = {}  # watermark, stable and start offset

    def update(self, request: FetchRequest) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                self.partitions[topic.topic, partition.partition] = partition
        for forgotten in request.forgotten:
            for index in forgotten.partitions:
                self.partitions.pop((forgotten.topic, index), None)
                self._told.pop((forgotten.topic, index), None)

    def is_news(self, key: Key, found: FetchedPartition) -> bool:
        """Whether the client needs to be told; remembers what it is told."""
        state = found.high_watermark, found.stable_offset, found.start_offset
        changed = self._told.get(key) != state
        self._told[key] = state
        if found.is_urgent:
            self._told.pop(key)
            return True
        if found.records:
            self.partitions.move_to_end(key)  # the others go first next time
            return True
        return changed


class FetchSessions:
    """Bounded: the least recently used session goes first; its client will open a new one."""

    def __init__(self, sessions_max: int, random: Random) -> None:
        self._sessions_max = sessions_max
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0  # invariant: of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(
        self, request: FetchRequest, tenant_id: str = ""
    ) -> tuple[FetchSession | None, ErrorCode]:
        """The session that the request belongs to, brought up to date; None for none.

        A tenant's session is nobody else's.
        """
        known = self._sessions.get(request.session_id)
        if known is not None and known.tenant_id != tenant_id:
            if request.session_epoch > OPEN_EPOCH:
                return None, ErrorCode.fetch_session_id_not_found
            request = msgspec.structs.replace(request, session_id=0)
        if request.session_epoch == -1:
            self._drop(request.session_id)
            return None, ErrorCode.none
        if request.session_epoch == OPEN_EPOCH:
            self._drop(request.session_id)
            return self._open(request, tenant_id), ErrorCode.none
        session = self._sessions.get(request.session_id)
        if session is None:
            return None, ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return None, ErrorCode.invalid_fetch_session_epoch
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        self._sessions.move_to_end(session.session_id)
        self._update(session, request)
        if session.session_id not in self._sessions:  # too large by itself
            return None, ErrorCode.fetch_session_id_not_found
        return session, ErrorCode.none

    def _open(self, request: FetchRequest, tenant_id: str) -> FetchSession | None:
        session = FetchSession(self._new_id(), tenant_id)
        self._sessions[session.session_id] = session
        self._update(session, request)
        return self._sessions.get(session.session_id)

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        before = len(session.partitions)
        session.update(request)
        self._partitions += len(session.partitions) - before
        while len(self._sessions) > self._sessions_max or self._partitions > PARTITIONS_MAX:
            self._drop(next(iter(self._sessions)))

    def _drop(self, session_id: int) -> None:
        dropped = self._sessions.pop(session_id, None)
        if dropped is not None:
            self._partitions -= len(dropped.partitions)

    def _new_id(self) -> int:
        while True:
            session_id = int.from_bytes(self._random.bytes(4)) & 0x7FFFFFFF
            if session_id and session_id not in self._sessions:
                return session_id


def list_requested(
    request: FetchRequest, session: FetchSession | None
) -> Iterable[tuple[Key, FetchPartition]]:
    """Every partition that the fetch is about, once, in the order in which to read them.

    Of one that is named twice the last counts, as in Kafka.
    """
    if session is not None:
        return list(session.partitions.items())
    return {
        (topic.topic, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }.items()
