"""Share groups, request by request."""

import asyncio
from typing import Any

import pytest
from kio.schema.alter_share_group_offsets.v0 import request as altering
from kio.schema.delete_share_group_offsets.v0 import request as deleting
from kio.schema.describe_share_group_offsets.v1 import request as describing
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.share_acknowledge.v2 import request as acknowledging
from kio.schema.share_fetch.v2 import request as fetching

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.model.batch import TRANSACTIONAL, decode_all
from goqueue.model.batch import encode as encode_batch
from goqueue.model.ids import Timestamp
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.queue import QueueSettings
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build, duration
from tests import queue_verbs
from tests.unit.server.kafka.asking import PEER, ask, ask_from

GROUP = "workers"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
WHOLE_BATCHES, RECORD_LIMIT = 0, 1


@pytest.fixture
async def topic(broker: Broker) -> Topic:
    await broker.queues.configure(GROUP, QueueSettings(start="earliest"))
    return await broker.create_topic("orders", partitions=2)


async def publish(broker: Broker, values: list[bytes], partition: int = 0) -> None:
    target = await broker.partition("orders", partition)
    batch = encode_batch([Record(offset, 0, None, v) for offset, v in enumerate(values)])
    appended = broker.append(target, bytearray(batch))
    await target.wait_committed(appended.last_offset)


async def heartbeat(broker: Broker, member: str = "ann", epoch: int = 0, **fields: Any) -> Any:
    asked: dict[str, Any] = {"group_id": GROUP, "member_id": member, "member_epoch": epoch}
    return await ask(broker, ApiKey.SHARE_GROUP_HEARTBEAT, **(asked | fields))


class Fetcher:
    """A member that fetches, and counts its session's epochs."""

    def __init__(
        self, broker: Broker, topic: Topic, member: str, version: int = 2, peer: str = PEER
    ) -> None:
        self.broker, self.topic, self.member, self.version = broker, topic, member, version
        self.peer = peer
        self.epoch = 0

    async def fetch(
        self, acks: dict[tuple[int, int], list[int]] | None = None, **fields: Any
    ) -> Any:
        batches = tuple(
            build(
                fetching.AcknowledgementBatch,
                first_offset=first,
                last_offset=last,
                acknowledge_types=tuple(types),
            )
            for (first, last), types in (acks or {}).items()
        )
        partition = build(
            fetching.FetchPartition, partition_index=0, acknowledgement_batches=batches
        )
        topics = build(fetching.FetchTopic, topic_id=self.topic.topic_id, partitions=(partition,))
        asked: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member,
            "share_session_epoch": self.epoch,
            "max_wait": duration(0),
            "max_records": 100,
            "share_acquire_mode": RECORD_LIMIT,
            "topics": (topics,),
        }
        answer = await ask_from(
            self.peer, self.broker, ApiKey.SHARE_FETCH, self.version, **(asked | fields)
        )
        if answer.error_code is ErrorCode.none:
            self.epoch += 1
        return answer

    async def acknowledge(
        self, first: int, last: int, *types: int, epoch: int | None = None
    ) -> Any:
        batch = build(
            acknowledging.AcknowledgementBatch,
            first_offset=first,
            last_offset=last,
            acknowledge_types=types,
        )
        partition = build(
            acknowledging.AcknowledgePartition, partition_index=0, acknowledgement_batches=(batch,)
        )
        topics = build(
            acknowledging.AcknowledgeTopic, topic_id=self.topic.topic_id, partitions=(partition,)
        )
        answer = await ask_from(
            self.peer,
            self.broker,
            ApiKey.SHARE_ACKNOWLEDGE,
            self.version,
            group_id=GROUP,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=(topics,),
        )
        if answer.error_code is ErrorCode.none:
            self.epoch += 1
        return answer


def partition_of(answer: Any) -> Any:
    assert answer.error_code is ErrorCode.none, answer.error_message
    ((partition,),) = (topic.partitions for topic in answer.responses)
    return partition


def ranges(answer: Any) -> list[tuple[int, int, int]]:
    if not answer.responses:
        return []
    acquired = partition_of(answer).acquired_records
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]


def values(answer: Any) -> list[bytes | None]:
    return [record.value for record in decode_all(partition_of(answer).records)]


# --- members ----------------------------------------------------------------------------------


async def test_every_member_is_assigned_all_partitions(broker, topic):
    names = ("orders", "missing")
    ann = await heartbeat(broker, "ann", subscribed_topic_names=names)
    bob = await heartbeat(broker, "bob", subscribed_topic_names=names)
    for joined in (ann, bob):
        (assigned,) = joined.assignment.topic_partitions
        assert (assigned.topic_id, assigned.partitions) == (topic.topic_id, (0, 1))
    stayed = await heartbeat(broker, "bob", bob.member_epoch)
    assert stayed.error_code is ErrorCode.none
    assert stayed.assignment is None


async def test_a_member_hears_of_new_partitions(broker, topic):
    joined = await heartbeat(broker, subscribed_topic_names=("orders",))
    await broker.add_partitions("orders", 3)
    told = await heartbeat(broker, "ann", joined.member_epoch)
    assert told.assignment.topic_partitions[0].partitions == (0, 1, 2)


async def test_the_epoch_before_is_good_once_more_and_others_are_fenced(broker, topic):
    first = await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    await heartbeat(broker, "bob", subscribed_topic_names=("orders",))
    second = await heartbeat(broker, "ann", first.member_epoch)
    assert second.member_epoch > first.member_epoch
    again = await heartbeat(broker, "ann", first.member_epoch)
    assert again.member_epoch == second.member_epoch
    assert again.assignment is not None
    wrong = await heartbeat(broker, "ann", second.member_epoch + 7)
    assert wrong.error_code is ErrorCode.fenced_member_epoch


async def test_who_is_not_there_is_told_so(broker, topic):
    assert (await heartbeat(broker, "ann", 1)).error_code is ErrorCode.unknown_member_id
    assert (await heartbeat(broker, "ann", -1)).error_code is ErrorCode.unknown_member_id
    assert (await heartbeat(broker, "")).error_code is ErrorCode.invalid_request


async def test_a_group_is_described(broker, topic):
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    described = await ask(broker, ApiKey.SHARE_GROUP_DESCRIBE, group_ids=(GROUP, "nobody"))
    group, missing = described.groups
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert [member.member_id for member in group.members] == ["ann"]
    assert group.members[0].assignment.topic_partitions[0].topic_name == "orders"
    assert missing.error_code is ErrorCode.group_id_not_found


async def test_the_last_acknowledgements_count_after_the_member_left(broker, topic):
    await publish(broker, [b"a", b"b"])
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    ann, bob = Fetcher(broker, topic, "ann"), Fetcher(broker, topic, "bob")
    assert ranges(await ann.fetch()) == [(0, 1, 1)]
    left = await heartbeat(broker, "ann", -1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
    assert ranges(await bob.fetch()) == [], "they are still to be acknowledged"
    assert partition_of(await ann.acknowledge(0, 0, ACCEPT, epoch=-1)).error_code is ErrorCode.none
    assert ranges(await bob.fetch()) == [(1, 1, 2)], "the final request gives the rest back"
    assert (await ann.acknowledge(1, 1, ACCEPT, epoch=-1)).error_code is (
        ErrorCode.share_session_not_found
    )


async def test_the_end_of_the_connection_gives_back_what_a_member_that_left_holds(broker, topic):
    await publish(broker, [b"a", b"b"])
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    await Fetcher(broker, topic, "ann", peer="127.0.0.1:40001").fetch()
    await heartbeat(broker, "ann", -1)
    broker.queue_members.disconnect("127.0.0.1:40001")
    assert ranges(await Fetcher(broker, topic, "bob").fetch()) == [(0, 1, 2)]


async def test_a_member_without_a_session_gives_back_what_it_holds_when_it_leaves(broker, topic):
    await publish(broker, [b"a", b"b"])
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    await queue_verbs.receive(broker.queues, ["orders"], GROUP, "ann")
    await heartbeat(broker, "ann", -1)
    assert ranges(await Fetcher(broker, topic, "bob").fetch()) == [(0, 1, 2)]


async def test_a_new_group_begins_at_the_end_of_its_topics(broker):
    topic = await broker.create_topic("orders", partitions=1)
    await publish(broker, [b"old"])
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    await publish(broker, [b"new"])
    assert ranges(await Fetcher(broker, topic, "ann").fetch()) == [(1, 1, 1)]


# --- fetching ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
async def test_members_share_a_partition(broker, topic, version):
    await publish(broker, [b"a", b"b", b"c", b"d"])
    ann = Fetcher(broker, topic, "ann", version)
    bob = Fetcher(broker, topic, "bob", version)
    first = await ann.fetch(max_records=3)
    assert ranges(first) == [(0, 2, 1)]
    assert values(first) == [b"a", b"b", b"c", b"d"], "batches are sent whole"
    assert ranges(await bob.fetch()) == [(3, 3, 1)]
    assert ranges(await ann.fetch()) == []


async def test_a_fetch_waits_for_messages(broker, topic):
    fetch = asyncio.create_task(Fetcher(broker, topic, "ann").fetch(max_wait=duration(10_000)))
    await asyncio.sleep(0)
    await publish(broker, [b"elsewhere"], partition=1)
    await publish(broker, [b"a"])
    assert ranges(await fetch) == [(0, 0, 1)]


async def test_acknowledgements_end_as_they_say(broker, topic):
    await publish(broker, [b"a", b"b", b"c", b"d"])
    ann = Fetcher(broker, topic, "ann")
    await ann.fetch()
    answer = await ann.fetch({(0, 3): [ACCEPT, RELEASE, REJECT, RENEW]}, is_renew_ack=True)
    assert partition_of(answer).acknowledge_error_code == 0
    held = broker.queues.in_flight(GROUP)
    assert [each.offset for each in held] == [3]
    assert ranges(await ann.fetch()) == [(1, 1, 2)]
    assert partition_of(await ann.acknowledge(1, 1, ACCEPT)).error_code is ErrorCode.none
    assert partition_of(await ann.acknowledge(3, 3, ACCEPT)).error_code is ErrorCode.none
    assert broker.queues.in_flight(GROUP) == []


async def test_a_record_that_is_released_again_and_again_is_a_dead_letter_in_the_end(broker, topic):
    await publish(broker, [b"poison", b"good"])
    ann = Fetcher(broker, topic, "ann")
    for attempt in range(1, 6):  # Kafka's share.delivery.count.limit
        assert ranges(await ann.fetch(max_records=1)) == [(0, 0, attempt)]
        assert partition_of(await ann.acknowledge(0, 0, RELEASE)).error_code is ErrorCode.none
    assert ranges(await ann.fetch(max_records=10)) == [(1, 1, 1)]
    await dead_letters(broker, 1)
    (letter,) = await broker.queues.dead_letters.browse("orders")
    assert letter.history is not None
    assert (letter.history.reason, letter.history.attempts) == ("max_deliveries", 5)
    assert (letter.history.failures, letter.history.timeouts) == (0, 0)


async def test_what_members_that_are_cut_off_held_counts_as_delivered(broker, topic):
    settings = QueueSettings(start="earliest", max_deliveries=3)
    await broker.queues.configure(GROUP, settings)
    await publish(broker, [b"a"])
    await Fetcher(broker, topic, "ann").fetch()
    broker.queue_members.disconnect(PEER)
    bob = Fetcher(broker, topic, "bob")
    assert ranges(await bob.fetch()) == [(0, 0, 2)]
    await bob.fetch(share_session_epoch=-1, topics=())
    cleo = Fetcher(broker, topic, "cleo")
    assert ranges(await cleo.fetch()) == [(0, 0, 3)]
    broker.queue_members.disconnect(PEER)
    assert ranges(await Fetcher(broker, topic, "dan").fetch()) == []
    await dead_letters(broker, 1)


async def dead_letters(broker: Broker, count: int) -> None:
    async with asyncio.timeout(10):
        while await broker.queues.dead_letters.count("orders") < count:
            await broker.environment.clock.sleep(0)


async def test_acknowledgements_of_a_partition_hold_all_or_none(broker, topic):
    await publish(broker, [b"a", b"b"])
    ann, bob = Fetcher(broker, topic, "ann"), Fetcher(broker, topic, "bob")
    await ann.fetch(max_records=1)
    await bob.fetch()
    refused = partition_of(await ann.acknowledge(0, 1, ACCEPT))
    assert refused.error_code is ErrorCode.invalid_record_state
    assert len(broker.queues.in_flight(GROUP)) == 2


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ({(0, 1): [ACCEPT, ACCEPT, ACCEPT]}, ErrorCode.invalid_request),
        ({(1, 0): [ACCEPT]}, ErrorCode.invalid_request),
        ({(0, 0): [9]}, ErrorCode.invalid_request),
        ({(1, 1): [ACCEPT], (0, 0): [ACCEPT]}, ErrorCode.invalid_request),
        ({(0, 2**62): [ACCEPT]}, ErrorCode.invalid_record_state),
        ({(0, 2**62): [0]}, ErrorCode.none),
    ],
)
async def test_acknowledgements_that_make_no_sense_are_refused(broker, topic, acks, code):
    await publish(broker, [b"a", b"b"])
    ann = Fetcher(broker, topic, "ann")
    await ann.fetch()
    answer = await ann.fetch(acks)
    assert partition_of(answer).acknowledge_error_code == code.value


async def test_sessions_go_on_in_turn_and_end_with_a_last_word(broker, topic):
    await publish(broker, [b"a", b"b"])
    ann = Fetcher(broker, topic, "ann")
    assert (await ann.acknowledge(0, 0, 1)).error_code is ErrorCode.invalid_share_session_epoch
    ann.epoch = 1
    assert (await ann.fetch()).error_code is ErrorCode.share_session_not_found
    ann.epoch = 0
    await ann.fetch()
    ann.epoch = 5
    assert (await ann.fetch()).error_code is ErrorCode.invalid_share_session_epoch
    assert partition_of(await ann.acknowledge(0, 0, ACCEPT, epoch=-1)).error_code is ErrorCode.none
    assert broker.queues.in_flight(GROUP) == [], "what was not acknowledged is released"
    assert ranges(await Fetcher(broker, topic, "bob").fetch()) == [(1, 1, 2)]


async def test_a_topic_that_is_gone_is_an_error_of_its_partition(broker, topic):
    ann = Fetcher(broker, topic, "ann")
    await ann.fetch()
    await broker.delete_topic("orders")
    assert partition_of(await ann.fetch()).error_code is ErrorCode.unknown_topic_id


# --- settings ---------------------------------------------------------------------------------


async def test_a_group_is_set_by_kafkas_names(broker):
    def setting(name: str, value: str, operation: int = 0) -> Any:
        return build(AlterableConfig, name=name, config_operation=operation, value=value)

    async def alter(*configs: Any) -> ErrorCode:
        resource = build(
            AlterConfigsResource, resource_type=32, resource_name=GROUP, configs=configs
        )
        answer = await ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,))
        code: ErrorCode = answer.responses[0].error_code
        return code

    earliest = setting("share.auto.offset.reset", "earliest")
    assert await alter(earliest, setting("share.record.lock.duration.ms", "15000")) == 0
    settings = broker.queues.settings(GROUP)
    assert (settings.start, settings.visibility_ms) == ("earliest", 15_000)
    assert await alter(setting("share.auto.offset.reset", "sometime")) is ErrorCode.invalid_config
    assert await alter(setting("share.record.lock.duration.ms", "-5")) is ErrorCode.invalid_config
    assert await alter(setting("share.delivery.count.limit", "0")) is ErrorCode.invalid_config
    assert await alter(setting("share.delivery.count.limit", "9")) == 0
    assert broker.queues.settings(GROUP).max_deliveries == 9
    assert await alter(setting("share.isolation.level", "read_uncommitted")) == 0
    assert await alter(setting("share.isolation.level", "none")) is ErrorCode.invalid_config
    session, often = setting("share.session.timeout.ms", "45000"), "share.heartbeat.interval.ms"
    assert await alter(session, setting(often, "5000")) == 0
    assert await alter(setting(often, "46000")) is ErrorCode.invalid_config
    assert await alter(setting("share.session.timeout.ms", "5")) is ErrorCode.invalid_config
    settings = broker.queues.settings(GROUP)
    assert (settings.isolation, settings.session_timeout_ms) == ("read_uncommitted", 45_000)
    assert (await heartbeat(broker, subscribed_topic_names=())).heartbeat_interval.seconds == 5
    assert await alter(setting("no.such", "1")) is ErrorCode.invalid_request
    assert await alter(setting("share.auto.offset.reset", "", operation=1)) == 0
    assert broker.queues.settings(GROUP).start == "latest"


async def test_share_groups_are_listed_and_deleted(broker, topic):
    joined = await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    listed = await ask(broker, ApiKey.LIST_GROUPS, types_filter=("share",))
    assert [(g.group_id, g.group_state, g.group_type) for g in listed.groups] == [
        (GROUP, "Stable", "Share")
    ]
    assert not (await ask(broker, ApiKey.LIST_GROUPS, types_filter=("classic",))).groups
    refused = await ask(broker, ApiKey.DELETE_GROUPS, groups_names=(GROUP,))
    assert refused.results[0].error_code is ErrorCode.non_empty_group
    assert joined.error_code is ErrorCode.none
    await heartbeat(broker, "ann", -1)
    deleted = await ask(broker, ApiKey.DELETE_GROUPS, groups_names=(GROUP,))
    assert deleted.results[0].error_code is ErrorCode.none
    described = await ask(broker, ApiKey.SHARE_GROUP_DESCRIBE, group_ids=(GROUP,))
    assert described.groups[0].error_code is ErrorCode.group_id_not_found


async def test_offsets_of_a_group_are_told_and_moved(broker, topic):
    await publish(broker, [b"a", b"b", b"c"])
    ann = Fetcher(broker, topic, "ann")
    await ann.fetch(max_records=2)
    await ann.acknowledge(0, 0, ACCEPT)

    async def told() -> tuple[int, int]:  # the first partition's
        group = build(describing.DescribeShareGroupOffsetsRequestGroup, group_id=GROUP, topics=None)
        answer = await ask(broker, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, groups=(group,))
        ((first, _),) = (each.partitions for each in answer.groups[0].topics)
        return first.start_offset, first.lag

    assert await told() == (1, 2)
    assert await move(broker, 0) is ErrorCode.none
    assert await told() == (0, 3)
    assert await move(broker, 99) is ErrorCode.offset_out_of_range
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    assert await move(broker, 0) is ErrorCode.non_empty_group


async def move(broker: Broker, offset: int, group: str = GROUP) -> ErrorCode:
    partition = build(
        altering.AlterShareGroupOffsetsRequestPartition, partition_index=0, start_offset=offset
    )
    moved = build(
        altering.AlterShareGroupOffsetsRequestTopic, topic_name="orders", partitions=(partition,)
    )
    answer = await ask(broker, ApiKey.ALTER_SHARE_GROUP_OFFSETS, group_id=group, topics=(moved,))
    code: ErrorCode = answer.error_code or answer.responses[0].partitions[0].error_code
    return code


async def share_groups(broker: Broker) -> list[tuple[str, str]]:
    listed = await ask(broker, ApiKey.LIST_GROUPS, types_filter=("share",))
    return [(each.group_id, each.group_state) for each in listed.groups]


async def test_moving_the_offsets_of_a_new_group_makes_it(broker):
    topic = await broker.create_topic("orders", partitions=1)
    await publish(broker, [b"a", b"b", b"c"])
    assert await move(broker, 1) is ErrorCode.none
    assert await share_groups(broker) == [(GROUP, "Empty")]
    await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    assert ranges(await Fetcher(broker, topic, "ann").fetch()) == [(1, 2, 1)]
    assert broker.queues.settings(GROUP).start == "latest", "as every group of share consumers"


async def test_a_group_of_http_consumers_at_work_is_stable(broker, topic):
    await publish(broker, [b"a"])
    await queue_verbs.receive(broker.queues, ["orders"], GROUP, "ann")
    assert await share_groups(broker) == [(GROUP, "Stable")]
    described = await ask(broker, ApiKey.SHARE_GROUP_DESCRIBE, group_ids=(GROUP,))
    (member,) = described.groups[0].members
    assert (member.member_id, member.subscribed_topic_names) == ("ann", ("orders",))
    assert member.assignment.topic_partitions[0].partitions == (0, 1)


async def test_a_group_stays_until_it_is_deleted_also_without_offsets(broker, topic):
    await publish(broker, [b"a"])
    await Fetcher(broker, topic, "ann").fetch()
    broker.queue_members.disconnect(PEER)
    await broker.queues.finish()  # the floors are committed offsets
    orders = build(deleting.DeleteShareGroupOffsetsRequestTopic, topic_name="orders")
    deleted = await ask(broker, ApiKey.DELETE_SHARE_GROUP_OFFSETS, group_id=GROUP, topics=(orders,))
    assert deleted.responses[0].error_code is ErrorCode.none
    assert await share_groups(broker) == [(GROUP, "Empty")]
    gone = await ask(broker, ApiKey.DELETE_GROUPS, groups_names=(GROUP,))
    assert gone.results[0].error_code is ErrorCode.none
    assert await share_groups(broker) == []


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
async def test_records_of_transactions_are_delivered_as_the_isolation_says(broker, topic, level):
    isolation: Any = level
    await broker.queues.configure(GROUP, QueueSettings(start="earliest", isolation=isolation))
    target = await broker.partition("orders", 0)

    async def write(value: bytes, producer_id: int) -> None:
        batch = encode_batch(
            [Record(0, 0, None, value)], attributes=TRANSACTIONAL, producer=(producer_id, 0, 0)
        )
        await target.wait_committed(broker.append(target, batch).last_offset)

    await write(b"aborted", 7)
    marker = target.append_marker(
        Marker(7, 0, coordinator_epoch=0, commits=False), now=Timestamp(0)
    )
    await target.wait_committed(marker)
    await publish(broker, [b"plain"])
    await write(b"open", 8)
    ann = Fetcher(broker, topic, "ann")
    found = await ann.fetch()
    if level == "read_committed":
        assert ranges(found) == [(2, 2, 1)]
        return
    assert ranges(found) == [(0, 0, 1), (2, 3, 1)], "all but the marker"
    assert values(found) == [b"aborted", b"plain", b"open"]
    await ann.acknowledge(0, 0, RELEASE)
    assert ranges(await ann.fetch()) == [(0, 0, 2)]
    await ann.acknowledge(0, 0, REJECT)
    await dead_letters(broker, 1)
    (letter,) = await broker.queues.dead_letters.browse("orders")
    assert letter.record.value == b"aborted"


async def test_offsets_of_a_group_are_deleted(broker, topic):
    async def delete(*names: str, group: str = GROUP) -> Any:
        topics = tuple(
            build(deleting.DeleteShareGroupOffsetsRequestTopic, topic_name=name) for name in names
        )
        return await ask(broker, ApiKey.DELETE_SHARE_GROUP_OFFSETS, group_id=group, topics=topics)

    await publish(broker, [b"a", b"b"])
    ann = Fetcher(broker, topic, "ann")
    await ann.fetch(max_records=2)
    await ann.acknowledge(0, 1, ACCEPT)
    joined = await heartbeat(broker, "ann", subscribed_topic_names=("orders",))
    assert joined.error_code is ErrorCode.none
    assert (await delete("orders")).error_code is ErrorCode.non_empty_group
    await heartbeat(broker, "ann", -1)
    assert (await delete("orders", group="nobody")).error_code is ErrorCode.group_id_not_found
    await broker.queues.finish()  # the floors are committed offsets
    answer = await delete("orders", "missing")
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert (await delete("orders")).responses[0].error_code is ErrorCode.none
    again = await Fetcher(broker, topic, "bob").fetch(max_records=2)
    (data,) = [each for each in again.responses[0].partitions if each.acquired_records]
    assert [(each.first_offset, each.last_offset) for each in data.acquired_records] == [(0, 1)]


async def test_a_broken_connection_lets_go_of_what_its_sessions_hold(broker, topic):
    await publish(broker, [b"a", b"b", b"c"])
    ann, bob = Fetcher(broker, topic, "ann"), Fetcher(broker, topic, "bob", peer="127.0.0.1:40001")
    await ann.fetch(max_records=2)
    await bob.fetch(max_records=1)
    broker.queue_members.disconnect("127.0.0.1:4")  # nobody's
    broker.queue_members.disconnect(PEER)
    held = broker.queues.in_flight(GROUP)
    assert [(each.consumer, each.offset) for each in held] == [("bob", 2)]
    state = broker.queues.groups[GROUP].states["orders", 0]
    assert (state.failures(0), state.attempts_so_far(0)) == (0, 1)
    assert (await ann.fetch()).error_code is ErrorCode.share_session_not_found
    bob.peer = PEER  # it has connected again, and goes on
    await bob.fetch(max_records=1)
    broker.queue_members.disconnect("127.0.0.1:40001")
    assert len(broker.queues.in_flight(GROUP)) == 2
    broker.queue_members.disconnect(PEER)
    assert broker.queues.in_flight(GROUP) == []


async def test_a_batch_is_sent_once_unless_the_client_wants_no_more_than_so_many(broker, topic):
    await publish(broker, [b"%d" % number for number in range(10)])
    await publish(broker, [b"more"])
    ann = Fetcher(broker, topic, "ann")

    async def fetched(count: int) -> list[tuple[int, int, int]]:
        return ranges(await ann.fetch(max_records=count, share_acquire_mode=WHOLE_BATCHES))

    assert await fetched(3) == [(0, 9, 1)]
    assert await fetched(3) == [(10, 10, 1)]
    await publish(broker, [b"%d" % number for number in range(10)])
    limited = await ann.fetch(max_records=3, share_acquire_mode=RECORD_LIMIT)
    assert (ranges(limited), len(values(limited))) == ([(11, 13, 1)], 10)
    await broker.queues.configure(GROUP, QueueSettings(max_in_flight_consumer=16))
    assert await fetched(1) == [(14, 15, 1)]  # it may hold no more
