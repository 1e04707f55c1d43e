"""A share session: its epochs, what it acknowledges, and how it is opened again."""

from types import SimpleNamespace as Answer
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.kafka import KafkaRefused
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.share_session import (
    EPOCH_MAX,
    RELEASE,
    RENEW,
    Received,
    ShareSession,
    Worker,
)
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.wire.apis import ApiKey
from tests.unit.client.kafka.fake_cluster import FIRST, FakeCluster

SOON = Deadline(5)
OK = ErrorCode.none
PLACE = TopicPartition(TopicName("t"), 0)
HELD = Received(PLACE, ((3, 4, 1), (7, 7, 2)), b"")


def answer(*partitions: Answer, code: ErrorCode = OK) -> Answer:
    return Answer(error_code=code, error_message=None, responses=(Answer(partitions=partitions),))


def partition(
    *acquired: tuple[int, int, int],
    code: ErrorCode = OK,
    acknowledged: ErrorCode = OK,
    records: bytes | None = None,
) -> Answer:
    spans = [
        Answer(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in acquired
    ]
    return Answer(
        partition_index=0,
        error_code=code,
        error_message=None,
        acknowledge_error_code=acknowledged.value,
        acknowledge_error_message=None,
        acquired_records=spans,
        records=records,
    )


def session_of(*answers: Any) -> tuple[ShareSession, FakeCluster]:
    cluster = FakeCluster(*answers)
    worker = Worker("g", "ann", "t", UUID(int=7))
    return ShareSession(cluster, FIRST, worker, [PLACE]), cluster  # type: ignore[arg-type]


def epochs(cluster: FakeCluster) -> list[int]:
    return [request.share_session_epoch for request in cluster.requests]


def test_a_session_names_its_partitions_first_and_counts_its_requests():
    session, cluster = session_of(answer(), answer(partition((5, 6, 1))), answer())
    assert session.fetch(10, 200, [], SOON) == [Received(PLACE, ((5, 6, 1),), b"")]
    assert session.fetch(10, 200, [HELD], SOON) == []
    opening, fetching, acking = cluster.requests
    assert epochs(cluster) == [0, 1, 2]
    assert (opening.max_records, fetching.max_records) == (0, 10)
    assert [each.partition_index for each in opening.topics[0].partitions] == [0]
    assert (opening.group_id, opening.member_id) == ("g", "ann")
    assert list(fetching.topics) == []
    (acked,) = acking.topics[0].partitions
    assert [(each.first_offset, each.last_offset) for each in acked.acknowledgement_batches] == [
        (3, 4),
        (7, 7),
    ]
    assert [list(each.acknowledge_types) for each in acked.acknowledgement_batches] == [[1], [1]]


@pytest.mark.parametrize(("kind", "renews"), [(RELEASE, False), (RENEW, True)])
def test_messages_are_acknowledged_as_the_worker_says(kind: int, renews: bool):
    session, cluster = session_of(answer(), answer(partition()))
    session.acknowledge([HELD], kind, SOON)
    request = cluster.requests[1]
    (acked,) = request.topics[0].partitions
    assert list(acked.acknowledgement_batches[0].acknowledge_types) == [kind]
    assert request.is_renew_ack is renews
    assert cluster.asked[1][1] is ApiKey.SHARE_ACKNOWLEDGE


@pytest.mark.parametrize(
    "code", [ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch]
)
def test_a_session_that_the_broker_lost_is_opened_again(code: ErrorCode):
    session, cluster = session_of(answer(), answer(code=code), answer(), answer(partition()))
    session.acknowledge([HELD], RELEASE, SOON)
    assert epochs(cluster) == [0, 1, 0, 1]
    assert cluster.requests[3].topics == cluster.requests[1].topics


def test_other_refusals_are_the_workers():
    session, cluster = session_of(answer(), answer(code=ErrorCode.invalid_request))
    with pytest.raises(KafkaRefused, match="group 'g': invalid_request"):
        session.acknowledge([HELD], RELEASE, SOON)
    assert epochs(cluster) == [0, 1]


@pytest.mark.parametrize("failed", ["code", "acknowledged"])
def test_a_partition_that_is_refused_fails_the_fetch(failed: str):
    bad: Any = {failed: ErrorCode.invalid_record_state}
    session, _ = session_of(answer(), answer(partition((1, 1, 1), **bad)))
    with pytest.raises(KafkaRefused, match=r"messages of .*invalid_record_state"):
        session.fetch(1, 0, [HELD], SOON)


def test_epochs_begin_again_with_one():
    session, cluster = session_of(answer(), answer(), answer())
    session.acknowledge([HELD], RELEASE, SOON)
    session._epoch = EPOCH_MAX
    session.acknowledge([HELD], RELEASE, SOON)
    assert epochs(cluster) == [0, 1, EPOCH_MAX]
    assert session._epoch == 1


def test_only_a_session_that_was_opened_is_closed():
    session, cluster = session_of(answer(), answer(), answer())
    session.close(SOON)
    assert cluster.asked == []
    session.acknowledge([HELD], RELEASE, SOON)
    session.close(SOON)
    assert epochs(cluster) == [0, 1, -1]
    session.close(SOON)
    assert len(cluster.asked) == 3, "once"


def test_records_are_those_that_were_acquired():
    data = bytes(encode([Record(at, 1, None, b"%d" % at) for at in range(4)]))
    some = Received(PLACE, ((0, 0, 1), (2, 3, 1)), data)
    assert (some.count, [each.offset for each in some.records()]) == (3, [0, 2, 3])
    whole = Received(PLACE, ((0, 3, 1),), data)
    assert [each.offset for each in whole.records()] == [0, 1, 2, 3]
