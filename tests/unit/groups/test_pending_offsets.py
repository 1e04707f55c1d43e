"""Offsets that wait for the end of a transaction."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.groups import GroupsConfig
from goqueue.groups.errors import GroupNotFound
from goqueue.model.errors import TransactionCoordinatorFenced
from goqueue.model.ids import TopicName, TopicPartition
from tests.unit.groups.harness import GROUP, Host, topic

WEEK = 7 * 24 * 3_600_000
KEY = TopicPartition(TopicName("orders"), 0)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), topic("orders", 4))


def pending(host: Host) -> set[int]:
    """The producers that may move the group in the first partition."""
    return set(host.machine.pending_offsets.of(GROUP).get(KEY, {}))


@pytest.mark.parametrize(("commits", "after"), [(True, 8), (False, 3)])
def test_an_offset_is_committed_or_dropped_with_the_marker(host, commits, after):
    host.commit(3)
    host.commit(8, producer_id=1, producer_epoch=0)
    assert (host.read_committed(), pending(host)) == (3, {1})
    host.end(1, 0, commits=commits)
    assert (host.read_committed(), pending(host)) == (after, set())


def test_a_marker_that_comes_again_changes_nothing(host):
    host.commit(8, producer_id=1, producer_epoch=0)
    host.end(1, 0)
    host.commit(9)
    written = len(host.log)
    host.end(1, 0)
    assert (host.read_committed(), len(host.log)) == (9, written)


def test_a_marker_with_a_new_epoch_leaves_the_next_transaction_alone(host):
    host.commit(8, producer_id=1, producer_epoch=0)
    host.end(1, 1, is_bumped=True)
    host.commit(9, producer_id=1, producer_epoch=1)
    host.end(1, 1, is_bumped=True)
    assert (host.read_committed(), pending(host)) == (8, {1})
    host.end(1, 2, is_bumped=True)
    assert host.read_committed() == 9


def test_a_marker_ends_the_transaction_of_its_producer_only(host):
    host.commit(8, producer_id=1, producer_epoch=0)
    host.commit(9, partition=1, producer_id=2, producer_epoch=0)
    host.end(2, 0)
    assert (host.read_committed(), host.read_committed(partition=1)) == (None, 9)
    assert pending(host) == {1}


def test_a_plain_commit_supersedes_what_is_pending(host):
    host.commit(8, producer_id=1, producer_epoch=0)
    host.commit(5)
    assert pending(host) == set(), "however the transaction ends, the group is at 5"
    host.end(1, 0)
    assert host.read_committed() == 5


def test_of_two_transactions_the_later_commit_stands(host):
    host.commit(8, producer_id=1, producer_epoch=0)
    host.commit(9, producer_id=2, producer_epoch=0)
    host.end(2, 0)
    host.end(1, 0)
    assert host.read_committed() == 9
    host.commit(10, producer_id=1, producer_epoch=0)
    host.commit(11, producer_id=2, producer_epoch=0)
    host.end(1, 0)
    assert (host.read_committed(), pending(host)) == (10, {2})
    host.end(2, 0)
    assert host.read_committed() == 11


def test_what_is_pending_does_not_expire(host):
    host.commit(3)
    host.commit(8, producer_id=1, producer_epoch=0)
    host.advance(2 * WEEK)
    assert host.read_committed() == 3
    host.end(1, 0)
    assert host.read_committed() == 8
    host.advance(2 * WEEK)
    assert host.read_committed() is None


def test_what_is_pending_goes_with_its_topic_and_with_its_group(host):
    host.commit(8, producer_id=1, producer_epoch=0)
    host.run(host.machine.topics_deleted(host.now, [KEY.topic]))
    assert pending(host) == set()
    host.commit(8, producer_id=1, producer_epoch=0)
    host.run(host.machine.delete_group(host.now, GROUP))
    assert pending(host) == set()
    with pytest.raises(GroupNotFound):
        host.run(host.machine.delete_group(host.now, GROUP))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("hold"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("end"), st.integers(0, 2), st.integers(0, 1)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_group_is_where_the_newest_commit_that_took_effect_left_it(steps):
    """As a model has it that keeps the whole history; the harness also replays every step."""
    host = Host(GroupsConfig(), topic("orders", 4))
    history: list[tuple[int, int | None, int]] = []  # partition, whose transaction, position
    for position, (verb, one, other) in enumerate(steps):
        if verb == "commit":
            host.commit(position, partition=one)
            history.append((one, None, position))
        elif verb == "hold":
            host.commit(position, partition=other, producer_id=one, producer_epoch=0)
            history.append((other, one, position))
        else:
            host.end(one, 0, commits=bool(other))
            history = [
                (partition, None if other else -1, at) if owner == one else (partition, owner, at)
                for partition, owner, at in history
            ]
        for partition in (0, 1):
            stands = [at for where, owner, at in history if where == partition and owner is None]
            assert host.read_committed(partition=partition) == max(stands, default=None)
    host.check_sliced_snapshots()


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(host):
    """A late one would end the next transaction of a producer that goes on with its epoch."""
    host.commit(1, producer_id=1, producer_epoch=0)
    host.end(1, 0, coordinator_epoch=4)
    host.end(1, 0, coordinator_epoch=5)  # the new coordinator does not know of the other's success
    host.commit(2, producer_id=1, producer_epoch=0)
    host.restart()
    with pytest.raises(TransactionCoordinatorFenced, match="epoch 4, it is 5 now"):
        host.end(1, 0, coordinator_epoch=4)
    assert host.read_committed() == 1
    host.end(1, 0, coordinator_epoch=5)
    assert host.read_committed() == 2
    host.check_replay()
