"""Priority lanes: five classes of messages, and whose turn it is.

Deficit round robin.  A round gives each lane as many messages as its weight says; a lane with
nothing to offer passes what is left of its share to the others (they begin the next round
sooner).  Lanes that waited for too long while others were served get one message each out of turn.

    round:   critical x50   high x25   normal x15   low x7   background x3     and again

A round goes on across requests, so that consumers that take one message at a time see the same
shares as those that take a thousand.
"""

from collections.abc import Sequence
from typing import Final

LANES: Final = 5
CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(LANES)
NAMES: Final = ("critical", "high", "normal", "low", "background")
WEIGHTS: Final = (50, 25, 15, 7, 3)
PRIORITY_HEADER: Final = "gq-priority"
PRIORITY_MARK: Final = PRIORITY_HEADER.encode()  # a batch without it has normal messages only

_BY_TEXT: Final = {name.encode(): lane for lane, name in enumerate(NAMES)} | {
    str(lane).encode(): lane for lane in range(LANES)
}


def lane_of(value: bytes | None) -> int:
    """The lane that a `gq-priority` header names, by word or number; normal for any other."""
    if value is None:
        return NORMAL
    lane = _BY_TEXT.get(value)
    return _BY_TEXT.get(value.strip().lower(), NORMAL) if lane is None else lane


class Turns:
    """Whose turn it is among the lanes of one group.

    Not durable: a restart begins a new round, which does not change the shares noticeably.
    """

    def __init__(self, weights: Sequence[int] = WEIGHTS, *, is_strict: bool = False) -> None:
        assert len(weights) == LANES
        assert min(weights) > 0
        self._weights = tuple(weights)
        self._is_strict = is_strict
        self._left = list(weights)  # of each lane's share in this round
        self._waiting_since: list[int | None] = [None] * LANES

    def begin(self, lanes: set[int], now: int, starvation_ms: int) -> list[int]:
        """Note which lanes may have something to offer; gives those that waited for too long.

        The one that waited longest comes first, or with requests for one message the last would
        never be served.  A lane that turns out to be empty must not keep the others waiting.
        """
        starved: list[tuple[int, int]] = []
        for lane, since in enumerate(self._waiting_since):
            if lane not in lanes:
                self._waiting_since[lane] = None
            elif since is None or since > now:  # new, or the clock was set back
                self._waiting_since[lane] = now
            elif now - since >= starvation_ms:
                starved.append((since, lane))
        return [lane for _, lane in sorted(starved)]

    def turn(self, lanes: set[int], room: int) -> tuple[int, int]:
        """Of `lanes`, none empty as far as known, the one to serve now and how many at most."""
        if len(lanes) == 1:
            return next(iter(lanes)), room
        if self._is_strict:
            return min(lanes), room
        if all(self._left[lane] <= 0 for lane in lanes):
            for lane in range(LANES):
                # What others took beyond their share, when this one had nothing, is forgotten.
                self._left[lane] = self._weights[lane]
        lane = min(lane for lane in lanes if self._left[lane] > 0)
        return lane, min(room, self._left[lane])

    def note_served(self, lane: int, count: int, now: int, *, is_alone: bool = False) -> None:
        if not is_alone:
            self._left[lane] -= count
        if count:
            self._waiting_since[lane] = now
