"""Leader epochs: who wrote what, and where two logs part."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from goqueue.log import epochs as epoch_file
from goqueue.log.epochs import EpochStart, LeaderEpochs, where_to_truncate
from goqueue.model.errors import FencedLeaderEpoch
from goqueue.model.ids import NO_EPOCH, Epoch, Offset
from tests.unit.log.replicated_logs import LEADER, Follower, History, state_of


def epochs_of(written: list[int]) -> LeaderEpochs:
    """Of a log whose record at each offset was written in the epoch given."""
    found = LeaderEpochs([])
    for offset, epoch in enumerate(written):
        found.assign(Epoch(epoch), Offset(offset))
    return found


def entries(found: LeaderEpochs) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in found.entries]


def ask(leader: list[int], follower: list[int]) -> Offset | None:
    """One round of a fetch: where the follower cuts its log; None when nothing differs."""
    if not follower:
        return None
    last = Epoch(follower[-1])
    theirs = epochs_of(leader)
    epoch, end = theirs.end_offset_for(last, Offset(len(leader)))
    if epoch == last and end >= len(follower):
        return None
    return where_to_truncate(epochs_of(follower), Offset(len(follower)), epoch, end)


def settle(leader: list[int], follower: list[int]) -> tuple[list[int], int]:
    """What is left of the follower's log, and in how many rounds."""
    rounds = 0
    while (offset := ask(leader, follower)) is not None:
        assert offset < len(follower), "each round cuts something"
        follower = follower[:offset]
        rounds += 1
    return follower, rounds


@pytest.mark.parametrize(
    ("leader", "follower", "left", "rounds"),
    [
        pytest.param([0, 0], [0, 0], [0, 0], 0, id="the same"),
        pytest.param([0, 0, 1], [0, 0], [0, 0], 0, id="the follower has less"),
        # KIP-101, first scenario: a follower that was cut at its watermark and then elected lost
        # what both had.  With epochs nothing is cut.
        pytest.param([0, 0], [0], [0], 0, id="KIP-101: nothing of what both have is cut"),
        # KIP-101, second scenario: each wrote one record at offset 1 while the other was away.
        pytest.param([0, 1], [0, 0], [0], 1, id="KIP-101: other records at the same offset"),
        # KIP-279: two fast elections; the follower's last epoch is one the leader never saw.
        pytest.param([0, 0, 2, 2], [0, 0, 1, 1], [0, 0], 1, id="KIP-279: an unknown epoch"),
        pytest.param([0, 0, 1, 3], [0, 0, 2, 2], [0, 0], 1, id="KIP-279: unknown on both sides"),
        pytest.param(
            [0, 0, 0, 2, 2, 4], [0, 0, 1, 1, 3], [0, 0], 2, id="KIP-279: more than one round"
        ),
        pytest.param([3, 3], [1, 1, 2], [], 1, id="nothing in common"),
        pytest.param([0, 0], [0, 0, 0, 0], [0, 0], 1, id="the leader has less of the epoch"),
    ],
)
def test_a_follower_keeps_what_its_leader_has(
    leader: list[int], follower: list[int], left: list[int], rounds: int
):
    assert settle(leader, follower) == (left, rounds)


@hypothesis_settings(max_examples=150)
@given(st.data())
def test_logs_of_random_elections_part_where_they_differ(data: st.DataObject):
    """Each epoch has one leader, which writes on its own log; the others have parts of it."""
    logs: list[list[int]] = [[], [], []]
    leader = 0
    for epoch in range(data.draw(st.integers(1, 8))):
        leader = data.draw(st.integers(0, 2))
        logs[leader] = logs[leader] + [epoch] * data.draw(st.integers(0, 4))
        for number in {0, 1, 2} - {leader}:
            if data.draw(st.booleans()):
                kept, _ = settle(logs[leader], logs[number])
                logs[number] = logs[leader][: data.draw(st.integers(len(kept), len(logs[leader])))]
    for number in {0, 1, 2} - {leader}:
        left, _ = settle(logs[leader], logs[number])
        same = 0
        while logs[leader][: same + 1] == logs[number][: same + 1] and same < len(logs[number]):
            same += 1
        assert left == logs[leader][:same]


def test_a_leader_that_knows_no_epoch_has_the_follower_cut_at_its_end():
    own = epochs_of([0, 0, 1])
    assert where_to_truncate(own, Offset(3), NO_EPOCH, Offset(2)) == 2
    assert where_to_truncate(own, Offset(3), NO_EPOCH, Offset(-1)) == 0
    assert where_to_truncate(LeaderEpochs([]), Offset(3), Epoch(1), Offset(5)) == 3


def test_an_epoch_in_which_nothing_was_written_is_forgotten():
    found = epochs_of([0, 0])
    found.assign(Epoch(1), Offset(2))
    found.assign(Epoch(2), Offset(2))
    assert entries(found) == [(0, 0), (2, 2)]


def test_a_new_leaders_epoch_is_durable_before_it_writes():
    history = History().play([("plain", 3)])
    history.log.store_epochs(history.log.begin_epoch(Epoch(4)))
    assert epoch_file.load(history.disk.crash(), LEADER) == [
        EpochStart(Epoch(0), Offset(0)),
        EpochStart(Epoch(4), Offset(3)),
    ]
    assert history.log.epochs.end_offset_for(Epoch(2), history.log.end_offset) == (0, 3)
    assert history.log.last_epoch == 0, "of the last record"
    history.epoch = Epoch(4)
    history.play([("plain", 2)])
    assert history.log.last_epoch == 4
    with pytest.raises(FencedLeaderEpoch):
        history.log.begin_epoch(Epoch(3))


def test_an_epoch_without_records_is_forgotten_at_the_next_opening():
    """Or a follower would claim to have what that epoch's leader wrote."""
    history = History().play([("plain", 3)])
    history.log.store_epochs(history.log.begin_epoch(Epoch(4)))
    history.restart("kill")
    assert entries(history.log.epochs) == [(0, 0)]


@pytest.mark.parametrize("restarts", [[], ["kill"], ["power"], ["checkpoint", "kill"]])
def test_a_leader_that_wrote_nothing_may_get_records_of_an_older_epoch(restarts: list[str]):
    """Its successor had more than it, and was never contradicted."""
    history = History().play([("plain", 3), ("elect", 2)])
    follower = Follower()
    follower.fetch(history.log, 1, 1)
    follower.checkpoint()
    follower.log.store_epochs(follower.log.begin_epoch(Epoch(6)))
    if restarts:
        follower.restart(restarts[0])
    history.play([("plain", 2), ("elect", 5), ("plain", 2)])
    while follower.fetch(history.log, 1, 1):
        for how in restarts:
            follower.restart(how)
    assert state_of(follower.log) == state_of(history.log)
    follower.restart("checkpoint")
    follower.restart("kill")
    assert state_of(follower.log) == state_of(history.log)


def test_an_empty_log_has_no_epoch():
    assert History().log.last_epoch == NO_EPOCH
