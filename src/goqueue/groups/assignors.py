"""The server-side assignors: which member should own which partitions.

All are pure functions of the members, their subscriptions, what they had, and the topics; equal
input gives equal output on every node.

* `uniform` (the default): as even as subscriptions allow, and as few moves as that evenness needs.
* `range`: each topic apart, neighbours together, so that equal partitions of several topics meet
  in one member (joins); even within one a topic.
* `roundrobin`: all partitions dealt out in order; even, not sticky.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from goqueue.groups import balance
from goqueue.groups.errors import UnsupportedAssignor
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.model.ids import TopicId, TopicIdPartition


class Subscriber(msgspec.Struct, frozen=True):
    """A member, as an assignor sees it."""

    member_id: str
    topics: frozenset[TopicId]
    had: PartitionSet = NO_PARTITIONS  # its former target: what stickiness keeps
    instance_id: str | None = None

    @property
    def rank(self) -> tuple[str, str]:
        """Its place in line; a static member keeps it over restarts."""
        return (self.instance_id or self.member_id, self.member_id)


Counts = Mapping[TopicId, int]  # partitions a topic
Targets = dict[str, PartitionSet]
Assignor = Callable[[Sequence[Subscriber], Counts], Targets]

DEFAULT_ASSIGNOR = "uniform"


def assign(name: str, members: Sequence[Subscriber], counts: Counts) -> Targets:
    """The target of every member; topics without subscribers stay unowned."""
    ranked = sorted(members, key=lambda member: member.rank)
    return ASSIGNORS[name](ranked, counts)


def check_assignor(name: str) -> str:
    if name not in ASSIGNORS:
        raise UnsupportedAssignor(f"{name!r} is not one of {', '.join(sorted(ASSIGNORS))}")
    return name


def uniform(members: Sequence[Subscriber], counts: Counts) -> Targets:
    if len({member.topics for member in members}) <= 1:
        return _uniform_alike(members, counts)
    return _uniform_mixed(members, counts)


def _uniform_alike(members: Sequence[Subscriber], counts: Counts) -> Targets:
    """All want the same topics: quotas of q or q+1, which makes the best keep easy to see.

    A member keeps min(had, quota).  So the moves are fewest when the larger quotas go to those
    that had most.
    """
    if not members:
        return {}
    free = dict.fromkeys(_all_partitions(members[0].topics, counts))
    quota, extra = divmod(len(free), len(members))
    by_had = sorted(members, key=lambda member: -len(member.had & free.keys()))
    kept: dict[str, list[TopicIdPartition]] = {}
    room: dict[str, int] = {}
    for place, member in enumerate(by_had):
        allowed = quota + (place < extra)
        kept[member.member_id] = _sort(member.had & free.keys())[:allowed]
        room[member.member_id] = allowed - len(kept[member.member_id])
        for partition in kept[member.member_id]:
            del free[partition]
    _deal(list(free), [member.member_id for member in members], kept, room)
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


def _deal(
    free: Sequence[TopicIdPartition],
    order: Sequence[str],
    kept: dict[str, list[TopicIdPartition]],
    room: dict[str, int],
) -> None:
    """One each in turn, so that a newcomer gets some of every topic rather than all of one."""
    takers = [member_id for member_id in order if room[member_id]]
    supply = iter(free)
    while takers:
        for member_id in takers:
            kept[member_id].append(next(supply))
            room[member_id] -= 1
        takers = [member_id for member_id in takers if room[member_id]]
    assert next(supply, None) is None, "the quotas add up to all partitions"


def _uniform_mixed(members: Sequence[Subscriber], counts: Counts) -> Targets:
    """Subscriptions differ: keep what was had, give the rest to the least loaded, then level."""
    topics = _ordered_topics(counts)
    number = {topic_id: index for index, topic_id in enumerate(topics)}
    wishes = [[number[topic] for topic in member.topics if topic in number] for member in members]
    holdings = balance.Holdings(len(members), [counts[topic] for topic in topics], wishes)
    for index, member in enumerate(members):
        for partition in _sort(member.had):
            if partition.topic_id in member.topics and partition.partition < counts.get(
                partition.topic_id, 0
            ):
                holdings.keep(index, number[partition.topic_id], partition.partition)
    holdings.fill()
    holdings.level()
    return {
        member.member_id: frozenset(
            TopicIdPartition(topics[topic], partition)
            for topic, partitions in holdings.of(index).items()
            for partition in partitions
        )
        for index, member in enumerate(members)
    }


def ranges(members: Sequence[Subscriber], counts: Counts) -> Targets:
    targets: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in members}
    for topic_id in _ordered_topics(counts):
        takers = [member.member_id for member in members if topic_id in member.topics]
        if takers:
            _cut(topic_id, counts[topic_id], takers, targets)
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


def _cut(
    topic_id: TopicId, count: int, takers: Sequence[str], targets: dict[str, list[TopicIdPartition]]
) -> None:
    quota, extra = divmod(count, len(takers))
    start = 0
    for place, member_id in enumerate(takers):
        end = start + quota + (place < extra)
        targets[member_id].extend(
            TopicIdPartition(topic_id, partition) for partition in range(start, end)
        )
        start = end


def round_robin(members: Sequence[Subscriber], counts: Counts) -> Targets:
    targets: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in members}
    turn = 0
    for partition in _all_partitions(frozenset(counts), counts):
        for step in range(len(members)):
            member = members[(turn + step) % len(members)]
            if partition.topic_id in member.topics:
                targets[member.member_id].append(partition)
                turn = (turn + step + 1) % len(members)
                break
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


ASSIGNORS: dict[str, Assignor] = {
    DEFAULT_ASSIGNOR: uniform,
    "range": ranges,
    "roundrobin": round_robin,
}


def _ordered_topics(counts: Counts) -> list[TopicId]:
    return sorted(counts, key=lambda topic_id: topic_id.int)


def _sort(partitions: PartitionSet) -> list[TopicIdPartition]:
    return sorted(partitions, key=lambda partition: (partition.topic_id.int, partition.partition))


def _all_partitions(topics: frozenset[TopicId], counts: Counts) -> list[TopicIdPartition]:
    return [
        TopicIdPartition(topic_id, partition)
        for topic_id in _ordered_topics(counts)
        if topic_id in topics
        for partition in range(counts[topic_id])
    ]
