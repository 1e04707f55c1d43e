"""Bugs 18 to 27 of the design's list, planted one by one: each is found, and by whom it says.

`make planted-bugs` runs these and those of replication, by name.

    directed   an existing test goes red
    stories    some seed of `story.py` does, told with the clients and the faults that it takes

Those of replication are in `test_replication_bugs.py` and `test_replication_stories.py`, in
`tests/sim`; those of a raft core (1 to 7) have no code here to be planted in.
"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from _pytest.outcomes import Failed
from structlog.testing import capture_logs

from goqueue.broker.cluster.coordinator_topics import GROUPS_TOPIC
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.messages import publish_elsewhere
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.queues import settlement
from goqueue.broker.queues.receive import Receiver
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.storage.topic_directories import TopicDirectories
from goqueue.broker.transactions.orphans import OrphanedTransactions, find_open_in
from goqueue.cluster import controller
from goqueue.cluster.controller import isr, reassignment
from goqueue.model.errors import GoQueueError, NodeUnreachable, NotLeader
from goqueue.model.ids import Offset
from goqueue.model.markers import Marker
from goqueue.queue import QueueSettings
from goqueue.testing.sim import SimDeadlock, World
from goqueue.testing.sim.consensus import SimQuorum
from goqueue.wire.node_messages import Orphan
from tests import queue_verbs
from tests.sim import test_replication_bugs, test_replication_stories
from tests.sim.cluster.faults import PROCESSES, is_whole
from tests.sim.cluster.story import Story
from tests.sim.planted import Plant, names_of, number_of
from tests.unit.broker.brokers import publish
from tests.unit.broker.cluster import test_coordinator_topics as groups
from tests.unit.broker.cluster import test_failover, test_transactions
from tests.unit.broker.cluster.cluster_world import HOSTS, ClusterWorld
from tests.unit.broker.storage import test_orphans
from tests.unit.cluster import test_controller

Catch = Callable[[], None]
FOUND = (AssertionError, Failed)
SEEDS_MAX = 200  # the design allows 2,000; the last one is found by seed 74
LISTED = range(8, 29)
SPLITS = ("cut", "cut_one_way", "separate", "kill")


# --- bugs -----------------------------------------------------------------------------------------


def accept_any_node_epoch(patch: pytest.MonkeyPatch) -> None:
    """18: a stale AlterPartition."""
    patch.setattr(isr, "_check_members", lambda *_: None)


def remove_orphaned_directories(patch: pytest.MonkeyPatch) -> None:
    """19: what the image does not know is removed."""

    def report(self: TopicDirectories) -> None:
        for orphan in self.orphans():
            self._disk.remove_tree(orphan.path)

    patch.setattr(TopicDirectories, "report_orphans", report)


def answer_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """20: a reply is read from a machine that is ahead of its log."""

    async def read(self: MachineHost[Any], look: Callable[[Any], Any]) -> Any:
        return look(self._machine)

    patch.setattr(MachineHost, "read", read)


def take_markers_of_any_coordinator(patch: pytest.MonkeyPatch) -> None:
    """21: the coordinator's epoch is not looked at."""
    patch.setattr(Marker, "check_coordinator", lambda *_: None)


def end_what_is_not_known_here(patch: pytest.MonkeyPatch) -> None:
    """22: a leader aborts what its own process does not coordinate."""

    async def ask(_self: OrphanedTransactions, partition: Partition) -> list[Orphan]:
        return [
            Orphan(each.producer_id, each.epoch, each.ended_at, 0, "", -1)
            for each in find_open_in(partition)
        ]

    patch.setattr(OrphanedTransactions, "_ask", ask)


def deliver_and_ack_without_waiting(patch: pytest.MonkeyPatch) -> None:
    """23: deliveries and acks of a leader that was deposed count."""

    async def deliver(_self: Receiver, deliveries: object, _committed: object) -> object:
        return deliveries

    async def settle(_waiting: Sequence[object]) -> None:
        return

    patch.setattr(Receiver, "_wait_durable", deliver)
    patch.setattr(settlement, "wait_durable", settle)


def coordinate_without_the_tail(patch: pytest.MonkeyPatch) -> None:
    """24: a new coordinator reads up to its high watermark."""
    read = PartitionJournal._read_batches

    def read_committed(self: PartitionJournal, offset: Offset, end: Offset | None = None) -> Any:
        return read(self, offset, self._partition.log.high_watermark)

    patch.setattr(PartitionJournal, "_read_batches", read_committed)


def decide_as_if_nothing_was_written(patch: pytest.MonkeyPatch) -> None:
    """25: after an append without an answer, the next term goes on without looking."""

    async def wait_for(_self: Controller, _end: object) -> None:
        return

    patch.setattr(Controller, "wait_for", wait_for)


def move_with_too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    """26: a reassignment is complete with an ISR below its minimum."""
    patch.setattr(reassignment, "effective_min_insync", lambda *_: 1)


def refuse_who_waits_at_a_hand_over(patch: pytest.MonkeyPatch) -> None:
    """27: a leader hands over, and does not wait for what it was asked to write."""

    def end_waits(self: Partition) -> None:
        self._waits.refuse(self._refusal)

    patch.setattr(Partition, "_end_waits", end_waits)


def publish_again_what_may_be_written(patch: pytest.MonkeyPatch) -> None:
    """27, the other way round: no error is seen, and a message is there twice."""
    refuse_who_waits_at_a_hand_over(patch)
    errors = (NodeUnreachable, NotLeader)
    patch.setattr(publish_elsewhere, "nothing_done", lambda each: isinstance(each, errors))


# --- who finds them -------------------------------------------------------------------------------


def test_a_move_waits_for_enough_replicas_in_sync():
    """The leader is to go, and one of the three that stay is in sync: it must not go yet."""
    cluster = test_controller.cluster_of(4)
    leader, first, *rest = cluster.state().replicas
    members = [test_controller.member(cluster, each) for each in (leader, first)]
    change = test_controller.change_of(cluster, *members)
    cluster.do(test_controller.ask(cluster, leader, change))
    topic_id = next(iter(cluster.metadata.topics.values())).topic_id
    cluster.do(controller.reassign(cluster.metadata, topic_id, 0, [first, *rest]))
    after = cluster.state()
    assert leader in after.replicas, f"only {first} has what was committed: {after}"


def read_offsets_of_a_coordinator_that_is_cut_off() -> None:
    """What it wrote alone is never committed, and nobody may be told of it."""

    async def read_while_it_commits() -> int | None:
        committing = asyncio.ensure_future(groups.commit(coordinator, 7))
        await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(0.5):
                return await groups.committed(coordinator)
        except (GoQueueError, TimeoutError):
            return None
        finally:
            committing.cancel()

    with groups.three_nodes() as nodes:
        nodes.world.run(nodes.controller.create_topic("orders", partitions=1))
        groups.move(nodes, GROUPS_TOPIC, "b")
        coordinator = groups.coordinating(nodes, groups.coordinates_groups, "b")
        nodes.world.run(groups.commit(coordinator, 3))
        nodes.world.fabric.isolate("b")
        assert nodes.world.run(read_while_it_commits()) in (None, 3)


def receive_from_a_leader_that_is_cut_off() -> None:
    """It is no leader any more, and does not know it: what it delivers, the next one does too."""

    async def receive(host: str, worker: str) -> list[bytes | None]:
        queues = nodes.brokers[host].queues
        try:
            async with asyncio.timeout(2.0):
                found = await queue_verbs.receive(queues, ["orders"], "workers", worker)
        except (GoQueueError, TimeoutError):
            return []
        return [each.record.value for each in found]

    with test_failover.three_nodes() as nodes:
        world, is_led = nodes.world, functools.partial(test_failover.leads, nodes)
        test_failover.create(nodes)
        world.run_until(is_led)
        world.run(nodes.brokers["b"].queues.configure("workers", QueueSettings()))
        world.run(receive("b", "before"))  # the group begins
        world.run(publish(nodes.brokers["b"], "orders", "one"))
        for other in "ac":
            world.fabric.cut("b", other)
        first = world.run(receive("b", "first"))
        world.run_until(lambda: test_failover.state(nodes).leader in (1, 3) and is_led())
        leader = HOSTS[test_failover.state(nodes).leader]
        second = world.run(receive(leader, "second"))
        assert (first, second) == ([], [b"one"]), f"two holders: {first}, {second}"


def claim_the_term_before_its_log_is_read() -> None:
    """The next controller hears late what the former one had committed and answered."""
    with capture_logs(), World(0) as world:
        quorum = SimQuorum(0)
        nodes = ClusterWorld(world, quorum=quorum)
        nodes.start(*nodes.hosts)
        world.run_until(lambda: is_whole(nodes), limit_s=60)
        (former,) = [host for host, each in nodes.brokers.items() if each is nodes.controller]
        for host in nodes.hosts:
            quorum.delay_follow(host, 3.0)
        world.run(nodes.controller.create_topic("orders"))
        nodes.stop(former)
        world.run_until(lambda: nodes.metadata is not None, limit_s=60)
        assert nodes.controller.has_topic("orders"), "it decides as if it had not been written"


def check_markers_of_deposed_coordinators() -> None:
    """As a partition's leader gets them: a newer coordinator's first, then the older one's."""
    with test_transactions.workload_on_three_nodes() as workload:
        workload.world.run(_send_two_markers(workload))


async def _send_two_markers(workload: Any) -> None:
    who = await test_transactions.init(workload)
    partition = await test_transactions.send(workload, who, test_transactions.ON_B, b"one")
    now = partition.log.producers.find(who.producer_id)
    assert now is not None
    newer = Marker(who.producer_id, who.epoch, now.coordinator_epoch + 5, commits=False)
    clock = workload._leader(test_transactions.ON_B).environment.clock
    await partition.wait_committed(partition.append_marker(newer, clock.now()))
    older = msgspec.structs.replace(newer, coordinator_epoch=newer.coordinator_epoch - 1)
    with pytest.raises(Exception, match="coordinator epoch"):
        partition.append_marker(older, clock.now())


def tell(*kinds: str, faults: Sequence[str], elects: bool | None = None) -> Catch:
    def catch() -> None:
        for seed in range(SEEDS_MAX):
            story = Story(f"planted {seed}", kinds=kinds, faults=faults, hosts=3, elects=elects)
            try:
                story.tell()
            except (SimDeadlock, TimeoutError):  # it got stuck; that alone does not name the bug
                problems = [problem for each in story.workloads for problem in each.problems]
                assert not problems, "\n".join(problems)

    return catch


DIRECTED: list[tuple[Plant, Catch]] = [
    (
        accept_any_node_epoch,
        test_controller.test_a_late_proposal_does_not_bring_back_a_node_that_lost_its_disk,
    ),
    (
        remove_orphaned_directories,
        lambda: test_orphans.test_topics_that_the_metadata_lost_keep_their_data(0),
    ),
    (answer_what_is_not_committed, read_offsets_of_a_coordinator_that_is_cut_off),
    (deliver_and_ack_without_waiting, receive_from_a_leader_that_is_cut_off),
    (decide_as_if_nothing_was_written, claim_the_term_before_its_log_is_read),
    (take_markers_of_any_coordinator, check_markers_of_deposed_coordinators),
    (end_what_is_not_known_here, test_transactions.test_what_a_coordinator_knows_is_no_orphan),
    (move_with_too_few_in_sync, test_a_move_waits_for_enough_replicas_in_sync),
    (
        refuse_who_waits_at_a_hand_over,
        lambda: test_failover.test_no_publisher_notices_that_the_leader_changes(0),
    ),
    (
        publish_again_what_may_be_written,
        lambda: test_failover.test_no_publisher_notices_that_the_leader_changes(1),
    ),
]

TOLD: list[tuple[Plant, Catch]] = [
    (deliver_and_ack_without_waiting, tell("queues", faults=SPLITS)),
    (coordinate_without_the_tail, tell("offsets", faults=PROCESSES)),
    (
        decide_as_if_nothing_was_written,
        tell("topics", faults=("kill", "isolate", "cut_quorum", "delay_quorum"), elects=True),
    ),
]


def test_every_bug_of_the_list_is_planted():
    planted = [*(plant for plant, _ in DIRECTED), *(plant for plant, _ in TOLD)]
    planted += [*test_replication_bugs.PLANTED, *test_replication_stories.PLANTED]
    planted += [test_replication_stories.cut_silently]
    assert {number_of(each) for each in planted} == set(LISTED)


@pytest.mark.parametrize(("plant", "catch"), DIRECTED, ids=names_of(plant for plant, _ in DIRECTED))
def test_a_planted_bug_turns_its_test_red(
    plant: Plant, catch: Catch, monkeypatch: pytest.MonkeyPatch
):
    catch()
    plant(monkeypatch)
    with pytest.raises(FOUND):
        catch()


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "catch"), TOLD, ids=names_of(plant for plant, _ in TOLD))
def test_a_planted_bug_is_found_by_stories(
    plant: Plant, catch: Catch, monkeypatch: pytest.MonkeyPatch
):
    plant(monkeypatch)
    with pytest.raises(FOUND):
        catch()
