"""The group APIs, version by version, where Kafka's answers differ."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.groups import FetchRequest
from goqueue.model.ids import GroupId
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build, duration
from goqueue.wire.shapes import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.unit.server.kafka.asking import ask

NO_TOPIC = UUID(int=7)


@pytest.fixture
async def topic(broker: Broker) -> Topic:
    return await broker.create_topic("orders", partitions=4)


# --- classic members --------------------------------------------------------------------------


async def join(broker: Broker, version: int | None = None, **fields: Any) -> Any:
    protocol = build(JoinGroupRequestProtocol, name="range", metadata=b"\x00\x00")
    asked: dict[str, Any] = {
        "group_id": "workers",
        "session_timeout": duration(10_000),
        "rebalance_timeout": duration(10_000),
        "protocol_type": "consumer",
        "protocols": (protocol,),
    }
    return await ask(broker, ApiKey.JOIN_GROUP, version, **(asked | fields))


async def stable_member(broker: Broker, group_id: str = "workers") -> str:
    joined = await join(broker, version=3, group_id=group_id)
    assignment = build(
        SyncGroupRequestAssignment, member_id=joined.member_id, assignment=b"\x00\x00mine"
    )
    synced = await ask(
        broker,
        ApiKey.SYNC_GROUP,
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=(assignment,),
    )
    assert synced.error_code is ErrorCode.none
    assert synced.assignment == b"\x00\x00mine"
    member_id: str = joined.member_id
    return member_id


@pytest.mark.parametrize("version", range(10))
async def test_a_new_member_is_sent_back_for_its_id_from_version_4_on(broker, version):
    answer = await join(broker, version)
    if version < 4:
        assert answer.error_code is ErrorCode.none
    else:
        assert answer.error_code is ErrorCode.member_id_required
        answer = await join(broker, version, member_id=answer.member_id)
    assert (answer.error_code, answer.generation_id) == (ErrorCode.none, 1)
    assert answer.leader == answer.member_id
    assert [member.metadata for member in answer.members] == [b"\x00\x00"]


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout": duration(5)}, ErrorCode.invalid_session_timeout),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
    ],
)
async def test_a_refused_join_can_be_read_in_every_version(broker, version, fields, code):
    assert (await join(broker, version, **fields)).error_code is code


@pytest.mark.parametrize("api", [ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP])
async def test_a_group_has_a_name(broker, api):
    assert (await ask(broker, api, group_id="")).error_code is ErrorCode.invalid_group_id


async def test_heartbeats_are_fenced_by_generation_and_member(broker):
    member_id = await stable_member(broker)

    async def heartbeat(member_id: str, generation_id: int) -> Any:
        answer = await ask(
            broker,
            ApiKey.HEARTBEAT,
            group_id="workers",
            member_id=member_id,
            generation_id=generation_id,
        )
        return answer.error_code

    assert await heartbeat(member_id, 1) is ErrorCode.none
    assert await heartbeat(member_id, 2) is ErrorCode.illegal_generation
    assert await heartbeat("stranger", 1) is ErrorCode.unknown_member_id


async def test_sync_checks_the_protocol_that_a_client_names(broker):
    member_id = await stable_member(broker)
    asked: dict[str, Any] = {"group_id": "workers", "member_id": member_id, "generation_id": 1}
    right = await ask(broker, ApiKey.SYNC_GROUP, **asked, protocol_name="range")
    wrong = await ask(broker, ApiKey.SYNC_GROUP, **asked, protocol_name="sticky")
    assert right.error_code is ErrorCode.none
    assert wrong.error_code is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", range(6))
async def test_each_leaver_has_its_own_answer(broker, version):
    member_id = await stable_member(broker)
    leavers = [build(MemberIdentity, member_id=member_id)]
    if version >= 3:
        leavers.append(build(MemberIdentity, member_id="stranger"))
    left = await ask(
        broker, ApiKey.LEAVE_GROUP, version, group_id="workers", members=tuple(leavers)
    )
    expected = [ErrorCode.none, ErrorCode.unknown_member_id][: len(leavers)]
    assert [member.error_code for member in left.members] == expected


async def test_a_waiting_member_whose_connection_ends_is_forgotten_after_its_session(broker):
    await stable_member(broker)
    waiting = asyncio.create_task(join(broker, version=3))
    await asyncio.sleep(0.05)  # the first member does not come back, so this one waits
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert broker.groups.host.ahead.parked_count == 0
    assert not broker.groups._parked


# --- consumer protocol ------------------------------------------------------------------------


async def beat(broker: Broker, version: int | None = None, **fields: Any) -> Any:
    asked: dict[str, Any] = {
        "group_id": "readers",
        "member_id": "reader-1",
        "member_epoch": 0,
        "rebalance_timeout": duration(30_000),
        "subscribed_topic_names": ("orders",),
        "topic_partitions": (),
    }
    return await ask(broker, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **(asked | fields))


async def test_an_assignment_names_topics_by_id(broker, topic):
    answer = await beat(broker)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 1)
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic.topic_id, (0, 1, 2, 3))


async def test_version_0_names_who_joins_without_an_id_and_version_1_does_not(broker, topic):
    assert (await beat(broker, 0, member_id="")).member_id
    assert (await beat(broker, 1, member_id="")).error_code is ErrorCode.invalid_request


async def test_a_regular_expression_subscribes_to_what_it_matches_as_a_whole(broker, topic):
    await broker.create_topic("orders-archive", partitions=1)
    wish: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.rs"}
    answer = await beat(broker, **wish)
    assert [found.topic_id for found in answer.assignment.topic_partitions] == [topic.topic_id]
    refused = await beat(broker, member_id="reader-2", **(wish | {"subscribed_topic_regex": "("}))
    assert refused.error_code is ErrorCode.invalid_regular_expression
    assert "missing )" in refused.error_message


async def test_consumer_groups_are_described_with_names_and_targets(broker, topic):
    await beat(broker)
    await stable_member(broker)
    described = await ask(
        broker,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        group_ids=("readers", "workers", "nobody"),
        include_authorized_operations=True,
    )
    group, classic, missing = described.groups
    assert (group.group_state, group.assignor_name) == ("Stable", "uniform")
    (member,) = group.members
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("orders", (0, 1, 2, 3))
    assert member.target_assignment == member.assignment
    assert (member.client_id, member.client_host) == ("tester", "/127.0.0.1")
    assert classic.error_code is missing.error_code is ErrorCode.group_id_not_found


# --- offsets ----------------------------------------------------------------------------------


async def commit(
    broker: Broker,
    offsets: dict[int, int],
    version: int | None = None,
    topic_id: UUID | None = None,
    name: str = "orders",
    **fields: Any,
) -> list[ErrorCode]:
    partitions = tuple(
        build(OffsetCommitRequestPartition, partition_index=index, committed_offset=offset)
        for index, offset in offsets.items()
    )
    topic = build(OffsetCommitRequestTopic, topic_id=topic_id, name=name, partitions=partitions)
    asked: dict[str, Any] = {"group_id": "workers", "topics": (topic,)}
    answer = await ask(broker, ApiKey.OFFSET_COMMIT, version, **(asked | fields))
    (found,) = answer.topics
    return [partition.error_code for partition in found.partitions]


async def fetch(
    broker: Broker,
    version: int | None = None,
    indexes: tuple[int, ...] | None = None,
    topic_id: UUID | None = None,
    **fields: Any,
) -> Any:
    topics = None
    if indexes is not None:
        topic = build(
            OffsetFetchRequestTopic, topic_id=topic_id, name="orders", partition_indexes=indexes
        )
        topics = (topic,)
    group = build(OffsetFetchRequestGroup, **({"group_id": "workers", "topics": topics} | fields))
    answer = await ask(broker, ApiKey.OFFSET_FETCH, version, groups=(group,), require_stable=True)
    (found,) = answer.groups
    return found


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_are_committed_by_name_and_since_version_10_by_id(broker, topic, version):
    codes = await commit(broker, {0: 5, 9: 5}, version, topic.topic_id)
    assert codes == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    (held,) = await broker.groups.fetch([FetchRequest(group_id=GroupId("workers"))])
    assert {key: found.offset for key, found in held.offsets.items()} == {("orders", 0): 5}


async def test_a_commit_to_an_unknown_topic_is_refused_by_itself(broker):
    assert await commit(broker, {0: 1}, 9) == [ErrorCode.unknown_topic_or_partition]
    assert await commit(broker, {0: 1}, 10, NO_TOPIC) == [ErrorCode.unknown_topic_id]


@pytest.mark.parametrize("version", range(1, 11))
async def test_fetch_says_minus_one_where_nothing_is_committed(broker, topic, version):
    await commit(broker, {0: 5}, 9)
    group = await fetch(broker, version, (0, 1), topic.topic_id)
    (found,) = group.topics
    assert [part.committed_offset for part in found.partitions] == [5, -1]
    assert {part.error_code for part in found.partitions} == {ErrorCode.none}


@pytest.mark.parametrize("version", range(2, 11))
async def test_fetch_of_all_topics_gives_what_is_committed(broker, topic, version):
    await commit(broker, {0: 5, 2: 7}, 9)
    (found,) = (await fetch(broker, version)).topics
    assert (found.name, found.topic_id) == ("orders", topic.topic_id)
    assert [part.committed_offset for part in found.partitions] == [5, 7]


async def test_fetch_by_an_unknown_id_is_a_mistake_and_by_an_unknown_name_is_empty(broker):
    by_id = await fetch(broker, 10, (0,), NO_TOPIC)
    by_name = await fetch(broker, 9, (0,))
    assert by_id.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id
    assert by_name.topics[0].partitions[0].error_code is ErrorCode.none


@pytest.mark.parametrize("version", [9, 10])
async def test_a_classic_group_gives_its_offsets_whoever_asks(broker, topic, version):
    member_id = await stable_member(broker)
    mine: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": 1}
    assert await commit(broker, {0: 5}, 9, **mine) == [ErrorCode.none]
    for asker, epoch in ((member_id, 1), ("stranger", 9)):
        group = await fetch(
            broker, version, (0,), topic.topic_id, member_id=asker, member_epoch=epoch
        )
        assert group.error_code is ErrorCode.none
        assert [part.committed_offset for part in group.topics[0].partitions] == [5]
    missing = await fetch(
        broker, version, (0,), topic.topic_id, group_id="nobody", member_id="m", member_epoch=1
    )
    assert missing.error_code is ErrorCode.none
    assert [part.committed_offset for part in missing.topics[0].partitions] == [-1]


async def test_a_stale_epoch_is_told_only_to_those_who_know_the_word(broker, topic):
    await beat(broker)
    late: dict[str, Any] = {
        "group_id": "readers",
        "member_id": "reader-1",
        "generation_id_or_member_epoch": 0,
    }
    assert await commit(broker, {0: 1}, 8, **late) == [ErrorCode.unsupported_version]
    assert await commit(broker, {0: 1}, 9, **late) == [ErrorCode.stale_member_epoch]
    refused = await fetch(broker, 9, (0,), group_id="readers", member_id="reader-1", member_epoch=5)
    assert refused.error_code is ErrorCode.stale_member_epoch


async def test_a_member_may_commit_with_an_older_epoch_what_it_has_held_since(broker, topic):
    await beat(broker)
    await beat(broker, member_id="reader-2")
    moved = await beat(broker, member_epoch=1)
    assert moved.member_epoch == 2
    (assigned,) = moved.assignment.topic_partitions
    kept = assigned.partitions[0]
    lost = ({0, 1, 2, 3} - set(assigned.partitions)).pop()
    older: dict[str, Any] = {
        "group_id": "readers",
        "member_id": "reader-1",
        "generation_id_or_member_epoch": 1,
    }
    assert await commit(broker, {kept: 3}, 9, **older) == [ErrorCode.none]
    assert await commit(broker, {lost: 3}, 9, **older) == [ErrorCode.stale_member_epoch]


async def test_offsets_of_topics_in_use_cannot_be_deleted(broker, topic):
    await beat(broker)
    epoch: dict[str, Any] = {
        "group_id": "readers",
        "member_id": "reader-1",
        "generation_id_or_member_epoch": 1,
    }
    assert await commit(broker, {0: 3}, 9, **epoch) == [ErrorCode.none]
    partition = build(OffsetDeleteRequestPartition, partition_index=0)
    topics = tuple(
        build(OffsetDeleteRequestTopic, name=name, partitions=(partition,))
        for name in ("orders", "nothing")
    )

    async def delete(group_id: str) -> Any:
        return await ask(broker, ApiKey.OFFSET_DELETE, group_id=group_id, topics=topics)

    codes = [topic.partitions[0].error_code for topic in (await delete("readers")).topics]
    assert codes == [ErrorCode.group_subscribed_to_topic, ErrorCode.unknown_topic_or_partition]
    assert (await delete("nobody")).error_code is ErrorCode.group_id_not_found
    await beat(broker, member_epoch=-1)
    codes = [topic.partitions[0].error_code for topic in (await delete("readers")).topics]
    assert codes == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]


# --- administration ---------------------------------------------------------------------------


async def test_groups_are_listed_by_state_and_type(broker, topic):
    await stable_member(broker)
    await beat(broker)
    await commit(broker, {0: 1}, 9, group_id="offsets-alone")

    async def listed(**filters: Any) -> set[str]:
        found = await ask(broker, ApiKey.LIST_GROUPS, **filters)
        return {group.group_id for group in found.groups}

    assert await listed() == {"workers", "readers", "offsets-alone"}
    assert await listed(states_filter=("empty",)) == {"offsets-alone"}
    assert await listed(types_filter=("Consumer",)) == {"readers"}
    assert await listed(states_filter=("Stable",), types_filter=("classic",)) == {"workers"}


@pytest.mark.parametrize("version", range(7))
async def test_classic_groups_are_described_and_others_are_not_found(broker, topic, version):
    await stable_member(broker)
    await beat(broker)
    answer = await ask(
        broker, ApiKey.DESCRIBE_GROUPS, version, groups=("workers", "readers", "nobody")
    )
    group, consumer, missing = answer.groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert [member.member_assignment for member in group.members] == [b"\x00\x00mine"]
    assert consumer.error_code is missing.error_code is ErrorCode.group_id_not_found


async def test_only_empty_groups_are_deleted(broker, topic):
    member_id = await stable_member(broker)

    async def delete() -> list[ErrorCode]:
        answer = await ask(broker, ApiKey.DELETE_GROUPS, groups_names=("workers", "nobody"))
        return [result.error_code for result in answer.results]

    assert await delete() == [ErrorCode.non_empty_group, ErrorCode.group_id_not_found]
    leaver = build(MemberIdentity, member_id=member_id)
    await ask(broker, ApiKey.LEAVE_GROUP, group_id="workers", members=(leaver,))
    assert await delete() == [ErrorCode.none, ErrorCode.group_id_not_found]
