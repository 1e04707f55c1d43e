"""What a follower tells its leader, and what it need not tell again."""

from goqueue.broker.replicas.replica import Following, ReplicaLog
from goqueue.broker.replicas.session import FollowerSession
from goqueue.testing.sim import SimDisk, SimLoop
from goqueue.wire.fetch import FetchTopic
from goqueue.wire.replica_fetch import ReplicaFetchResponse
from tests.unit.broker.replicas.replicas import TOPIC, follower_role, key_of, open_partition

OPENED = ReplicaFetchResponse(0, 17, [])
REFUSED = ReplicaFetchResponse(70, 0, [])


def replica(index: int = 0) -> ReplicaLog:
    role = follower_role()

    async def opened() -> ReplicaLog:
        partition = open_partition(SimDisk(), role, index)
        return ReplicaLog(key_of(index), partition, Following(role))

    loop = SimLoop(0)
    try:
        return loop.run_until_complete(opened())
    finally:
        loop.close()


def hundred(_replica: ReplicaLog) -> int:
    return 100


def named(topics: list[FetchTopic]) -> list[int]:
    return [partition.partition for topic in topics for partition in topic.partitions]


def test_a_session_begins_with_epoch_zero_and_counts_from_there():
    session = FollowerSession()
    assert session.is_new
    assert named(session.tell([replica(0), replica(1)], hundred)) == [0, 1]
    assert session.take(OPENED)
    assert (session.session_id, session.epoch) == (17, 1)
    assert session.take(OPENED)
    assert session.epoch == 2
    assert not session.is_new


def test_what_is_left_out_is_said_once():
    session, one, other = FollowerSession(), replica(0), replica(1)
    session.tell([one, other], hundred)
    session.leave_out(one)
    session.leave_out(one)
    [forgotten] = session.take_left_out()
    assert (forgotten.topic, forgotten.partitions) == (TOPIC, [0])
    assert session.take_left_out() == []


def test_what_the_leader_was_not_told_need_not_be_left_out():
    session = FollowerSession()
    session.leave_out(replica(0))
    assert session.take_left_out() == []


def test_who_comes_back_is_not_left_out():
    session, one = FollowerSession(), replica(0)
    session.tell([one], hundred)
    session.leave_out(one)
    assert named(session.tell([one], hundred)) == [0]
    assert session.take_left_out() == []


def test_an_answer_is_for_who_was_asked_for():
    """A replica that has the place of another since has asked for nothing."""
    session, one, successor = FollowerSession(), replica(0), replica(0)
    session.tell([one], hundred)
    assert session.find(key_of(0)) is one
    session.leave_out(one)
    assert session.find(key_of(0)) is None
    session.tell([successor], hundred)
    session.leave_out(one)
    assert session.find(key_of(0)) is successor


def test_a_session_that_is_refused_begins_anew_and_names_the_old_one():
    session, one = FollowerSession(), replica(0)
    session.tell([one], hundred)
    session.take(OPENED)
    assert not session.take(REFUSED)
    assert (session.session_id, session.epoch, session.is_new) == (17, 0, True)
    assert session.find(key_of(0)) is None


def test_the_epoch_stays_within_31_bits():
    session = FollowerSession()
    session.epoch = 2**31 - 1
    session.take(OPENED)
    assert session.epoch == 1
