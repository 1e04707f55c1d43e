"""Assignments in memory and in records."""

import random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.partition_sets import PartitionSet, TopicPartitions, pack, unpack
from goqueue.model.ids import TopicId, TopicIdPartition

PARTITIONS = st.frozensets(
    st.builds(
        TopicIdPartition,
        st.integers(0, 3).map(lambda number: TopicId(UUID(int=number))),
        st.integers(0, 20),
    )
)


@given(PARTITIONS, st.randoms(use_true_random=False))
def test_equal_assignments_are_equal_records(partitions: PartitionSet, order: random.Random):
    mixed = list(partitions)
    order.shuffle(mixed)
    packed = pack(mixed)
    assert unpack(packed) == partitions
    assert packed == pack(partitions)
    assert [each.topic_id.int for each in packed] == sorted({each[0].int for each in partitions})


def test_partitions_are_sorted_by_number():
    topic_id = TopicId(UUID(int=1))
    partitions = [TopicIdPartition(topic_id, number) for number in (10, 9, 2)]
    assert pack(partitions) == (TopicPartitions(topic_id, (2, 9, 10)),)
