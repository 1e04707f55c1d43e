"""JoinGroup and SyncGroup requests that wait in classic groups.

In memory only: a restart breaks their connections anyway.
"""

import enum
from collections.abc import Iterator
from typing import NamedTuple

from goqueue.groups.replies import Token
from goqueue.model.ids import GroupId, Timestamp


class Waiting(enum.Enum):
    JOIN = "join"
    SYNC = "sync"


class ParkedRequest(NamedTuple):
    group_id: GroupId
    member_id: str
    waiting: Waiting


class GroupWaiters:
    """The requests of one group that wait, by member."""

    def __init__(self) -> None:
        self.joining: dict[str, Token] = {}
        self.syncing: dict[str, Token] = {}
        self.pending: set[str] = set()  # ids given out and not yet joined with
        self.unsynced: set[str] = set()  # joined this generation, no SyncGroup from them yet
        self.newcomers = False  # since the initial delay was last set
        self.delay_ends_at = Timestamp(0)  # the initial delay is prolonged up to here

    @property
    def is_vacant(self) -> bool:
        return not (self.joining or self.syncing or self.pending or self.unsynced)

    def is_waiting(self, member_id: str) -> bool:
        return member_id in self.joining or member_id in self.syncing


class ParkedRequests:
    def __init__(self) -> None:
        self._waiters: dict[GroupId, GroupWaiters] = {}
        self._parked: dict[Token, ParkedRequest] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._parked)

    def waiters(self, group_id: GroupId) -> GroupWaiters:
        return self._waiters.setdefault(group_id, GroupWaiters())

    def peek_waiters(self, group_id: GroupId) -> GroupWaiters:
        """To read only: a question about a group that does not exist must not cost memory."""
        return self._waiters.get(group_id) or GroupWaiters()

    def park(self, parked: ParkedRequest) -> Token:
        """Let a request wait; no other one of the same kind and member may be waiting."""
        token = Token(self._next)
        self._next += 1
        self._parked[token] = parked
        self._tokens(parked)[parked.member_id] = token
        return token

    def leave(self, parked: ParkedRequest) -> Token | None:
        """End the wait; the token of the request, if there was one."""
        token = self._tokens(parked).pop(parked.member_id, None)
        if token is not None:
            del self._parked[token]
        return token

    def abandon(self, token: Token) -> ParkedRequest | None:
        """The client disconnected: the request that it waited with."""
        parked = self._parked.get(token)
        if parked is not None:
            self.leave(parked)
        return parked

    def clear(self) -> list[Token]:
        """Drop all requests and return their tokens; no token is ever used twice."""
        tokens = list(self._parked)
        self._parked.clear()
        self._waiters.clear()
        return tokens

    def sweep(self, group_id: GroupId) -> None:
        """Drop the entry of a group that is gone."""
        waiters = self._waiters.get(group_id)
        if waiters is not None and waiters.is_vacant:
            del self._waiters[group_id]

    def waiting_in(self, group_id: GroupId, waiting: Waiting) -> Iterator[ParkedRequest]:
        """A copy of the list, so that requests may be ended while it is iterated."""
        waiters = self.waiters(group_id)
        tokens = waiters.joining if waiting is Waiting.JOIN else waiters.syncing
        return iter([ParkedRequest(group_id, member_id, waiting) for member_id in tokens])

    def _tokens(self, parked: ParkedRequest) -> dict[str, Token]:
        waiters = self.waiters(parked.group_id)
        return waiters.joining if parked.waiting is Waiting.JOIN else waiters.syncing
