"""Share sessions: a member names the partitions it fetches from once, then only changes.

    epoch   0   open a session with the partitions of this request
           >0   changes only; the epoch must be the next in turn
           -1   the session ends

A session belongs to a member of a group and to the connection of its last request: when that
breaks, the session ends, and the member's messages are released.  It does not end when the member
leaves its group, for the last acknowledgements may come after that.  A client whose session is not
found opens another.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId

SESSIONS_MAX: Final = 10_000
OPEN_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[UUID, int]  # a topic's partition
Holder = tuple[GroupId, str]  # a group's member


class ShareSessionNotFound(GoQueueError):
    """The session was closed, or the broker started again."""

    code = "share_session_not_found"
    retriable = True


class InvalidShareSessionEpoch(GoQueueError):
    """A request of the session was lost, or came twice."""

    code = "invalid_share_session_epoch"
    retriable = True


class ShareSession:
    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.epoch = 1  # that the next request must bear
        self.partitions: OrderedDict[Key, None] = OrderedDict()

    def update(self, named: Iterable[Key], forgotten: Iterable[Key]) -> None:
        for key in named:
            self.partitions[key] = None
        for key in forgotten:
            self.partitions.pop(key, None)


class ShareSessions:
    """Bounded: the least recently used goes first."""

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[Holder, ShareSession] = OrderedDict()
        self._by_connection: dict[str, set[Holder]] = {}

    def open(self, group_id: GroupId, member_id: str, connection: str = "") -> ShareSession:
        self.close(group_id, member_id)
        session = self._sessions[group_id, member_id] = ShareSession(connection)
        self._by_connection.setdefault(connection, set()).add((group_id, member_id))
        if len(self._sessions) > self._sessions_max:
            self.close(*next(iter(self._sessions)))
        return session

    def next(
        self, group_id: GroupId, member_id: str, epoch: int, connection: str = ""
    ) -> ShareSession:
        """The session of a request that bears `epoch`; one with the final epoch is closed."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareSessionNotFound(f"{member_id!r} has no share session in {group_id!r}")
        if epoch == FINAL_EPOCH:
            self.close(group_id, member_id)
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"epoch {epoch}, {session.epoch} is the next in turn")
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        self._sessions.move_to_end((group_id, member_id))
        if connection != session.connection:
            self._leave((group_id, member_id), session.connection)
            session.connection = connection
            self._by_connection.setdefault(connection, set()).add((group_id, member_id))
        return session

    def is_open(self, group_id: GroupId, member_id: str) -> bool:
        return (group_id, member_id) in self._sessions

    def close(self, group_id: GroupId, member_id: str) -> None:
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self._leave((group_id, member_id), session.connection)

    def close_all(self, connection: str) -> list[Holder]:
        """The connection is gone; gives whose sessions that ends."""
        holders = sorted(self._by_connection.get(connection, ()))
        for holder in holders:
            self.close(*holder)
        return holders

    def _leave(self, holder: Holder, connection: str) -> None:
        holders = self._by_connection[connection]
        holders.discard(holder)
        if not holders:
            del self._by_connection[connection]
