"""Even shares of partitions when members subscribe to different topics.

Members and topics are small numbers here.  A member may own partitions of the topics it wishes.
`level` moves partitions along paths until no path leads from a member to one with at least two
fewer; then no division of these wishes is more even (an optimal semi-matching), and because each
move starts from what members had, few move.

The search goes from all the fullest members at once.  If it finds no way down, everyone it
reached is as even as can be and nobody outside can be helped through them, so they are set aside:
a search either improves the division or shrinks the problem.
"""

import heapq
from collections import deque
from collections.abc import Sequence

Path = list[tuple[int, int, int]]  # moves: giver, topic, taker


class Holdings:
    def __init__(
        self, member_count: int, partition_counts: Sequence[int], wishes: Sequence[Sequence[int]]
    ) -> None:
        self._free: list[dict[int, None]] = [
            dict.fromkeys(range(count)) for count in partition_counts
        ]
        self._held: list[dict[int, list[int]]] = [{} for _ in range(member_count)]
        self._load = [0] * member_count
        self._wishers: list[list[int]] = [[] for _ in partition_counts]
        for member, topics in enumerate(wishes):
            for topic in topics:
                self._wishers[topic].append(member)

    def of(self, member: int) -> dict[int, list[int]]:
        return self._held[member]

    def keep(self, member: int, topic: int, partition: int) -> None:
        """Let the member keep what it had, unless somebody has it already."""
        if partition in self._free[topic]:
            del self._free[topic][partition]
            self._give(member, topic, partition)

    def fill(self) -> None:
        """Give what nobody has to the least loaded; topics with few wishers choose first."""
        for topic in sorted(range(len(self._free)), key=lambda topic: len(self._wishers[topic])):
            takers = [(self._load[member], member) for member in self._wishers[topic]]
            heapq.heapify(takers)
            for partition in self._free[topic] if takers else ():
                load, member = takers[0]
                self._give(member, topic, partition)
                heapq.heapreplace(takers, (load + 1, member))

    def level(self) -> None:
        """Move partitions from the full to the less full until nothing can be more even."""
        active = set(range(len(self._held)))
        while active:
            top = max(self._load[member] for member in active)
            reached, path = self._search(active, top)
            if path:
                self._walk(path)
            else:
                active -= reached

    def _search(self, active: set[int], top: int) -> tuple[set[int], Path]:
        """From all at `top` along what they could hand over; ends at one with two fewer."""
        sources = [member for member in sorted(active) if self._load[member] == top]
        came_from: dict[int, tuple[int, int] | None] = dict.fromkeys(sources)
        queue = deque(sources)
        topics_seen: set[int] = set()
        while queue:
            giver = queue.popleft()
            for topic in self._held[giver]:
                if topic in topics_seen:
                    continue
                topics_seen.add(topic)
                for taker in self._takers(topic, active, came_from):
                    came_from[taker] = (giver, topic)
                    if self._load[taker] <= top - 2:
                        return set(came_from), self._trace(came_from, taker)
                    queue.append(taker)
        return set(came_from), []

    def _takers(
        self, topic: int, active: set[int], came_from: dict[int, tuple[int, int] | None]
    ) -> list[int]:
        """Members not yet reached that wish for the topic, the least loaded first."""
        takers = [
            member
            for member in self._wishers[topic]
            if member in active and member not in came_from
        ]
        return sorted(takers, key=lambda member: self._load[member])

    def _trace(self, came_from: dict[int, tuple[int, int] | None], end: int) -> Path:
        path: Path = []
        taker = end
        while (step := came_from[taker]) is not None:
            giver, topic = step
            path.append((giver, topic, taker))
            taker = giver
        return path

    def _walk(self, path: Path) -> None:
        """From the far end back, so that each giver still has what it hands over."""
        for giver, topic, taker in path:
            partitions = self._held[giver][topic]
            partition = partitions.pop()
            if not partitions:
                del self._held[giver][topic]
            self._load[giver] -= 1
            self._give(taker, topic, partition)

    def _give(self, member: int, topic: int, partition: int) -> None:
        self._held[member].setdefault(topic, []).append(partition)
        self._load[member] += 1
