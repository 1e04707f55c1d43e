"""Who waits for what in classic groups.  Memory only: a restart breaks their connections anyway."""

import enum
from collections.abc import Iterator
from typing import NamedTuple

from goqueue.groups.replies import Token
from goqueue.model.ids import GroupId, Timestamp


class Waiting(enum.Enum):
    JOIN = "join"
    SYNC = "sync"


class Place(NamedTuple):
    group_id: GroupId
    member_id: str
    waiting: Waiting


class Room:
    """The callers of one group."""

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


class Lobby:
    def __init__(self) -> None:
        self._rooms: dict[GroupId, Room] = {}
        self._places: dict[Token, Place] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._places)

    def room(self, group_id: GroupId) -> Room:
        return self._rooms.setdefault(group_id, Room())

    def peek(self, group_id: GroupId) -> Room:
        """The room to look into: asking about a group that is not there must not cost memory."""
        return self._rooms.get(group_id) or Room()

    def park(self, place: Place) -> Token:
        """Let a caller wait; the caller has made sure that the place is free."""
        token = Token(self._next)
        self._next += 1
        self._places[token] = place
        self._seats(place)[place.member_id] = token
        return token

    def leave(self, place: Place) -> Token | None:
        """The token of who waits there, who waits no longer."""
        token = self._seats(place).pop(place.member_id, None)
        if token is not None:
            del self._places[token]
        return token

    def abandon(self, token: Token) -> Place | None:
        """The caller went away: where it waited."""
        place = self._places.get(token)
        if place is not None:
            self.leave(place)
        return place

    def clear(self) -> list[Token]:
        """Send everybody away; no token is ever used twice."""
        tokens = list(self._places)
        self._places.clear()
        self._rooms.clear()
        return tokens

    def sweep(self, group_id: GroupId) -> None:
        """Drop the room of a group that is gone."""
        room = self._rooms.get(group_id)
        if room is not None and room.is_vacant:
            del self._rooms[group_id]

    def waiting_in(self, group_id: GroupId, waiting: Waiting) -> Iterator[Place]:
        """A stable list of places, so that they may be left on the way."""
        room = self.room(group_id)
        seats = room.joining if waiting is Waiting.JOIN else room.syncing
        return iter([Place(group_id, member_id, waiting) for member_id in seats])

    def _seats(self, place: Place) -> dict[str, Token]:
        room = self.room(place.group_id)
        return room.joining if place.waiting is Waiting.JOIN else room.syncing
