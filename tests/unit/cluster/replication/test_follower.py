"""Where two logs part, and what a follower gives up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster.replication import (
    Diverged,
    Frozen,
    ack_offset,
    find_divergence,
    truncation_offset,
)
from goqueue.log.epochs import EpochStart, LeaderEpochs
from goqueue.model.ids import NO_EPOCH, Epoch, Offset


def epochs_of(log: list[int]) -> LeaderEpochs:
    """Of a log that is written as the epoch of each record."""
    starts: list[EpochStart] = []
    for offset, epoch in enumerate(log):
        if not starts or epoch > starts[-1].epoch:
            starts.append(EpochStart(Epoch(epoch), Offset(offset)))
    return LeaderEpochs(starts)


def diverge(leader: list[int], follower: list[int]) -> Diverged | None:
    return find_divergence(
        epochs_of(leader),
        Offset(len(leader)),
        fetch_offset=Offset(len(follower)),
        last_fetched_epoch=Epoch(follower[-1]) if follower else NO_EPOCH,
    )


def cut(follower: list[int], found: Diverged, high_watermark: int = 0, *, unclean: bool = False):
    return truncation_offset(
        epochs_of(follower),
        Offset(len(follower)),
        found,
        high_watermark=Offset(high_watermark),
        is_unclean=unclean,
    )


@pytest.mark.parametrize(
    ("leader", "follower", "kept"),
    [
        ([0, 0, 1, 1], [0, 0, 1], 3),
        ([0, 0, 1, 1], [0, 0, 0], 2),
        ([0, 0, 2], [0, 0, 1, 1], 2),
        ([0, 3], [0, 1, 2], 1),
        ([3], [0, 0], 0),
        ([0, 0], [0, 0, 0], 2),
    ],
)
def test_a_follower_keeps_what_both_have(leader: list[int], follower: list[int], kept: int):
    rounds = 0
    while (found := diverge(leader, follower)) is not None:
        follower = follower[: cut(follower, found)]
        rounds += 1
    assert len(follower) == kept
    assert rounds <= 2


# A history of leaders: each epoch's leader has some prefix of an earlier log and writes more.
histories = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 8), st.integers(1, 3)), min_size=1, max_size=6
)


@given(histories)
def test_whatever_was_written_where_the_two_agree_in_the_end(history):
    """Records of one epoch and offset are the same wherever they are: one leader wrote them."""
    logs: list[list[int]] = [[]]
    for epoch, (parent, length, count) in enumerate(history):
        base = logs[parent % len(logs)][:length]
        logs.append([*base, *[epoch] * count])
    leader = logs[-1]
    for follower in logs[:-1]:
        kept = follower
        while (found := diverge(leader, kept)) is not None:
            shorter = kept[: cut(kept, found)]
            assert len(shorter) < len(kept)
            kept = shorter
        assert kept == leader[: len(kept)]
        common = 0
        while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
            common += 1
        assert len(kept) == common, "nothing that both have is given up"


def test_committed_records_are_not_cut_for_a_leader_that_lacks_them():
    found = diverge([0, 2], [0, 0, 0])
    assert found is not None
    frozen = cut([0, 0, 0], found, high_watermark=2)
    assert frozen == Frozen(Offset(1), Offset(2))
    assert "missing committed records" in str(frozen)
    assert cut([0, 0, 0], found, high_watermark=2, unclean=True) == 1


def test_a_follower_acknowledges_what_its_topic_calls_safe():
    state = {"synced_offset": Offset(3), "end_offset": Offset(5)}
    assert ack_offset(**state, flush="commit") == 3
    assert ack_offset(**state, flush="interval") == 5
