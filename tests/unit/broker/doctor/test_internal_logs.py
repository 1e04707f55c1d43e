"""The broker's own logs, replayed and repaired while the server is stopped."""

from uuid import UUID

from goqueue.broker.cluster.coordinator_topics import GROUPS_TOPIC
from goqueue.broker.doctor.internal_logs import (
    MEANING,
    PRODUCER_IDS_SKIPPED,
    adopt,
    internal_place,
    ledger_place,
    metadata_in,
    repair,
    replay_all,
    replay_ledger,
    skip_producer_ids,
)
from goqueue.broker.internal_topics import METADATA_TOPIC
from goqueue.broker.storage.orphans import Orphan
from goqueue.cluster import Metadata
from goqueue.model.ids import Timestamp, TopicId, TopicName
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World
from tests import queue_verbs
from tests.unit.broker.brokers import CONFIG, publish, running

ID = TopicId(UUID(int=1))
NOW = Timestamp(1)


def stopped(topics: int = 3) -> SimDisk:
    """The disk of a broker that made some topics, and whose queue has a ledger."""

    async def life(environment: Environment) -> None:
        async with running(environment) as broker:
            for number in range(topics):
                await broker.create_topic(f"t{number}", partitions=1)
            await publish(broker, "t0", "one")
            await queue_verbs.receive(broker.queues, ["t0"], "workers", "me")

    with World(0) as world:
        world.run(life(world.environment("a")))
        return world.disk("a")


def damage_end(disk: SimDisk, topic: str) -> None:
    path = f"/data/logs/{topic}/0/{0:020d}.log"
    disk.flip_bit(path, disk.size(path) - 3)


def orphan(topic: str = "lost", topic_id: TopicId | None = ID, partitions: int = 2) -> Orphan:
    return Orphan(f"/data/logs/{topic}", topic, topic_id, partitions, 100)


def test_every_internal_log_has_a_place_and_a_meaning():
    for topic in MEANING:
        assert internal_place(topic).log == f"logs/{topic}/0"
    place = ledger_place("orders", 3)
    assert place.snapshots.startswith(f"{place.log}/"), "a ledger's snapshots go with its log"


def test_sound_logs_are_replayed_to_what_the_broker_knew():
    disk = stopped()
    found = replay_all(disk, CONFIG)
    assert set(found) == set(MEANING)
    assert all(each.is_sound and not each.warnings for each in found.values())
    assert {"t0", "t1", "t2"} <= {str(topic.name) for topic in metadata_in(found).topics.values()}
    assert replay_ledger(disk, "/data", TopicName("t1"), 0) is None
    ledger = replay_ledger(disk, "/data", TopicName("t0"), 0)
    assert ledger is not None
    assert ledger.is_sound


def test_a_damaged_log_is_mended_and_no_offset_is_used_twice():
    disk = stopped()
    damage_end(disk, METADATA_TOPIC)
    found = replay_all(disk, CONFIG)[METADATA_TOPIC]
    assert not found.is_sound
    repair(disk, "/data", found, "/data/damaged/now")
    again = replay_all(disk, CONFIG)[METADATA_TOPIC]
    assert again.is_sound
    assert again.report.start_offset >= found.report.end_offset
    assert disk.exists(f"/data/damaged/now/logs/{METADATA_TOPIC}/0")
    assert not disk.exists("/data/repaired")
    assert replay_all(disk, CONFIG)[GROUPS_TOPIC].is_sound, "the others are left alone"


def test_a_directory_without_a_topic_becomes_one_again():
    metadata = Metadata({}, 100)
    good = orphan()
    assert adopt(metadata, [good, orphan("nameless", None), orphan("empty", ID, 0)], NOW) == [good]
    topic = metadata.topic("lost")
    assert (topic.topic_id, topic.partitions) == (ID, 2)
    assert adopt(metadata, [good], NOW) == [], "it is there"
    taken = orphan("lost", TopicId(UUID(int=2)))
    assert adopt(metadata, [taken], NOW) == [], "its name is another's"


def test_ids_that_may_have_been_given_out_are_skipped():
    disk = stopped()
    metadata = metadata_in(replay_all(disk, CONFIG))
    before = metadata.next_producer_id
    skip_producer_ids(disk, "/data", metadata)
    assert metadata.next_producer_id >= before + PRODUCER_IDS_SKIPPED
