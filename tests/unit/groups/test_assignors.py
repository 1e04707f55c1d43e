"""The assignors: even, sticky, the same everywhere."""

from collections.abc import Iterable
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.assignors import ASSIGNORS, Subscriber, Targets, assign
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.model.ids import TopicId, TopicIdPartition

TOPICS = [TopicId(UUID(int=number)) for number in range(1, 5)]
counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)
members_alike = st.sets(st.integers(0, 30), min_size=1, max_size=12)
wishes = st.dictionaries(
    st.integers(0, 12).map(str), st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=8
)


def alike(names: Iterable[object], had: Targets | None = None) -> list[Subscriber]:
    had = had or {}
    return [Subscriber(f"{n}", frozenset(TOPICS), had.get(f"{n}", NO_PARTITIONS)) for n in names]


def all_partitions(counts: dict[TopicId, int]) -> PartitionSet:
    return frozenset(TopicIdPartition(t, p) for t, count in counts.items() for p in range(count))


def assert_divided(targets: Targets, partitions: PartitionSet) -> None:
    assert sum(map(len, targets.values())) == len(partitions), "no topic_partition twice"
    assert frozenset().union(*targets.values()) == partitions, "all partitions owned"


@given(counts_of_topics, members_alike)
def test_every_slot_has_one_owner_and_shares_differ_by_at_most_one(
    counts: dict[TopicId, int], names: set[int]
) -> None:
    for name in ("uniform", "roundrobin"):
        targets = assign(name, alike(names), counts)
        assert_divided(targets, all_partitions(counts))
        sizes = [len(partitions) for partitions in targets.values()]
        assert max(sizes) - min(sizes) <= 1


@given(counts_of_topics, members_alike)
def test_range_is_even_in_each_topic_and_gives_neighbours(
    counts: dict[TopicId, int], names: set[int]
) -> None:
    targets = assign("range", alike(names), counts)
    assert_divided(targets, all_partitions(counts))
    for topic in counts:
        shares = [sorted(s.partition for s in t if s.topic_id == topic) for t in targets.values()]
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert all(s[-1] - s[0] == len(s) - 1 for s in shares if s)


@given(counts_of_topics, members_alike, counts_of_topics, members_alike)
def test_uniform_moves_no_more_than_evenness_demands(
    counts: dict[TopicId, int],
    names: set[int],
    later_counts: dict[TopicId, int],
    later_names: set[int],
) -> None:
    had = assign("uniform", alike(names), counts)
    targets = assign("uniform", alike(later_names, had), later_counts)
    partitions = all_partitions(later_counts)
    assert_divided(targets, partitions)
    quota, extra = divmod(len(partitions), len(later_names))
    before = sorted(
        (len(had.get(str(n), NO_PARTITIONS) & partitions) for n in later_names), reverse=True
    )
    keepable = sum(min(kept, quota + (i < extra)) for i, kept in enumerate(before))
    kept = sum(len(targets[str(n)] & had.get(str(n), NO_PARTITIONS)) for n in later_names)
    assert kept == keepable


@given(counts_of_topics, members_alike)
def test_uniform_is_still_when_nothing_changed(counts: dict[TopicId, int], names: set[int]) -> None:
    had = assign("uniform", alike(names), counts)
    assert assign("uniform", alike(names, had), counts) == had


@given(counts_of_topics, wishes, wishes)
def test_different_subscriptions_are_served_as_evenly_as_they_allow(
    counts: dict[TopicId, int],
    earlier: dict[str, frozenset[TopicId]],
    later: dict[str, frozenset[TopicId]],
) -> None:
    had = assign("uniform", [Subscriber(n, topics) for n, topics in earlier.items()], counts)
    members = [Subscriber(n, topics, had.get(n, NO_PARTITIONS)) for n, topics in later.items()]
    targets = assign("uniform", members, counts)
    wished = frozenset().union(*later.values())
    assert_divided(targets, frozenset(s for s in all_partitions(counts) if s.topic_id in wished))
    assert all(s.topic_id in later[n] for n, partitions in targets.items() for s in partitions)
    assert not way_down(targets, later)
    settled = [Subscriber(n, topics, targets[n]) for n, topics in later.items()]
    assert assign("uniform", settled, counts) == targets, "sticky once even"


def way_down(targets: Targets, wishes: dict[str, frozenset[TopicId]]) -> bool:
    """Could some chain of hand-overs take from one member and give to one with two fewer?"""
    for start in targets:
        reached, frontier = {start}, [start]
        while frontier:
            giver = frontier.pop()
            for taker in set(targets) - reached:
                if any(
                    topic_partition.topic_id in wishes[taker] for topic_partition in targets[giver]
                ):
                    if len(targets[taker]) <= len(targets[start]) - 2:
                        return True
                    reached.add(taker)
                    frontier.append(taker)
    return False


@given(counts_of_topics, wishes)
def test_the_order_in_which_members_are_named_does_not_matter(
    counts: dict[TopicId, int], wanted: dict[str, frozenset[TopicId]]
) -> None:
    members = [Subscriber(n, topics) for n, topics in wanted.items()]
    for name in ASSIGNORS:
        assert assign(name, members, counts) == assign(name, members[::-1], counts)


def test_a_second_consumer_gets_a_share_of_three_partitions() -> None:
    had = assign("uniform", alike(["a"]), {TOPICS[0]: 3})
    targets = assign("uniform", alike(["a", "b"], had), {TOPICS[0]: 3})
    assert sorted(map(len, targets.values())) == [1, 2]


def test_a_restarted_static_member_keeps_its_place_in_a_range() -> None:
    before = [Subscriber("x1", frozenset(TOPICS), instance_id="a"), *alike(["b"])]
    after = [Subscriber("z9", frozenset(TOPICS), instance_id="a"), *alike(["b"])]
    counts = {TOPICS[0]: 5}
    assert assign("range", before, counts)["x1"] == assign("range", after, counts)["z9"]
