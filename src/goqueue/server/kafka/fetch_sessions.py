"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only changes.

    session epoch  -1   no session wanted (and the one named, if any, ends)
                    0   open a session with the partitions of this request
                   >0   the request holds changes only; the epoch must be the next in turn

The reply to an incremental fetch leaves out partitions of which there is nothing new to say.
"""

from collections import OrderedDict
from collections.abc import Iterator
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.runtime import Random
from goqueue.wire.fetch import FetchPartition, FetchPartitionResponse, FetchRequest

Key = tuple[str | UUID, int]
_EPOCH_MAX = 2**31 - 1


class FetchSession:
    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
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

    def is_news(self, key: Key, response: FetchPartitionResponse) -> bool:
        """Whether the client needs to be told; remembers what it is told."""
        state = (
            response.high_watermark,
            response.last_stable_offset,
            response.log_start_offset,
        )
        changed = self._told.get(key) != state
        self._told[key] = state
        if response.error_code:
            self._told.pop(key)
            return True
        if response.records:
            self.partitions.move_to_end(key)  # the others go first next time
            return True
        return changed


class FetchSessions:
    """Bounded: the least recently used session goes first; its client will open a new one."""

    def __init__(self, sessions_max: int, random: Random) -> None:
        self._sessions_max = sessions_max
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest) -> tuple[FetchSession | None, ErrorCode]:
        """The session that the request belongs to, brought up to date; None for none."""
        if request.session_epoch == -1:
            self._sessions.pop(request.session_id, None)
            return None, ErrorCode.none
        if request.session_epoch == 0:
            self._sessions.pop(request.session_id, None)
            return self._opened(request), ErrorCode.none
        session = self._sessions.get(request.session_id)
        if session is None:
            return None, ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return None, ErrorCode.invalid_fetch_session_epoch
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.update(request)
        self._sessions.move_to_end(session.session_id)
        return session, ErrorCode.none

    def _opened(self, request: FetchRequest) -> FetchSession:
        session = FetchSession(self._new_id())
        session.update(request)
        self._sessions[session.session_id] = session
        if len(self._sessions) > self._sessions_max:
            self._sessions.popitem(last=False)
        return session

    def _new_id(self) -> int:
        while True:
            session_id = int.from_bytes(self._random.bytes(4)) & 0x7FFFFFFF
            if session_id and session_id not in self._sessions:
                return session_id


def requested(
    request: FetchRequest, session: FetchSession | None
) -> Iterator[tuple[Key, FetchPartition]]:
    """Every partition that the fetch is about, in the order in which to read them."""
    if session is not None:
        yield from list(session.partitions.items())
        return
    for topic in request.topics:
        for partition in topic.partitions:
            yield (topic.topic, partition.partition), partition
