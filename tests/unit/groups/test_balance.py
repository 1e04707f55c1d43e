"""Even shares when members want different topics."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.balance import Holdings


def loads(holdings: Holdings, members: int) -> list[int]:
    return [sum(map(len, holdings.of(member).values())) for member in range(members)]


@given(
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    wishes=st.lists(st.sets(st.integers(0, 2), max_size=3), min_size=1, max_size=3),
    kept=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=6),
)
def test_no_division_of_these_wishes_is_more_even(
    counts: list[int], wishes: list[set[int]], kept: list[tuple[int, int, int]]
):
    wanted = [sorted(topic for topic in some if topic < len(counts)) for some in wishes]
    holdings = Holdings(len(wanted), counts, wanted)
    for member, topic, partition in kept:
        if member < len(wanted) and topic in wanted[member]:
            holdings.keep(member, topic, partition)
    holdings.fill()
    holdings.level()
    for topic, count in enumerate(counts):
        owned = [
            each for member in range(len(wanted)) for each in holdings.of(member).get(topic, [])
        ]
        has_taker = any(topic in some for some in wanted)
        assert sorted(owned) == (list(range(count)) if has_taker else [])
    assert all(set(holdings.of(member)) <= set(wanted[member]) for member in range(len(wanted)))
    assert sum(load**2 for load in loads(holdings, len(wanted))) == least_squares(counts, wanted)


def least_squares(counts: list[int], wanted: list[list[int]]) -> int:
    """Of all divisions: the smaller the sum of squares, the more even."""
    takers = [
        [member for member, topics in enumerate(wanted) if topic in topics]
        for topic, count in enumerate(counts)
        for _ in range(count)
    ]
    found = [
        sum(owners.count(member) ** 2 for member in range(len(wanted)))
        for owners in itertools.product(*(each for each in takers if each))
    ]
    return min(found)


def test_what_somebody_has_is_not_kept_by_another():
    holdings = Holdings(2, [1], [[0], [0]])
    holdings.keep(1, 0, 0)
    holdings.keep(0, 0, 0)
    holdings.keep(0, 0, 7)
    assert (holdings.of(0), holdings.of(1)) == ({}, {0: [0]})


def test_who_has_its_share_keeps_what_it_had():
    holdings = Holdings(2, [4], [[0], [0]])
    for partition in (0, 2, 3):
        holdings.keep(0, 0, partition)
    holdings.fill()
    holdings.level()
    assert set(holdings.of(0)[0]) < {0, 2, 3}
    assert loads(holdings, 2) == [2, 2]


def test_a_partition_moves_through_members_that_lie_between():
    """0 wants a, 1 wants a and b, 2 wants b: what 0 has too much reaches 2 through 1."""
    holdings = Holdings(3, [4, 2], [[0], [0, 1], [1]])
    for partition in range(4):
        holdings.keep(0, 0, partition)
    for partition in range(2):
        holdings.keep(1, 1, partition)
    holdings.level()
    assert loads(holdings, 3) == [2, 2, 2]


def test_what_nobody_has_goes_to_the_least_loaded_one_by_one():
    holdings = Holdings(3, [1, 6], [[0, 1], [1], [1]])
    holdings.fill()
    assert sorted(loads(holdings, 3)) == [2, 2, 3]


def test_members_that_gave_are_full_no_longer():
    """Two have six each, three have none; the sixth wants nothing that they have."""
    holdings = Holdings(6, [12, 1], [[0], [0], [0], [0], [0], [1]])
    for partition in range(12):
        holdings.keep(partition % 2, 0, partition)
    holdings.keep(5, 1, 0)
    holdings.level()
    assert sorted(loads(holdings, 6)) == [1, 2, 2, 2, 3, 3]


def test_a_topic_that_few_want_chooses_first():
    holdings = Holdings(2, [2, 2], [[0, 1], [0]])
    holdings.fill()
    assert loads(holdings, 2) == [2, 2]
