"""Whatever nodes and leaders do, in whatever order: each record keeps the invariants, and whoever
is elected cleanly has all that was committed.

Beside the metadata runs a model of the data: what each node's disk has of each partition.  A leader
commits while enough are in sync; a proposal may arrive late; disks are lost and copied back.
"""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.cluster import NO_LEADER, Metadata, MetadataRecord, PartitionState, controller
from goqueue.cluster.controller import IsrChange, Registration
from goqueue.cluster.errors import (
    ElectionNotNeeded,
    FeatureRefused,
    IneligibleReplica,
    LeaderNotAvailable,
    NodeInUse,
    NodeNotFound,
    NoReassignment,
    StaleNodeEpoch,
    StalePartitionEpoch,
)
from goqueue.cluster.metadata import (
    FeatureRange,
    NodeChanged,
    NodeState,
    PartitionChanged,
    TopicCreated,
)
from goqueue.cluster.replication import Follower, IsrMember, Leader, Offline
from goqueue.model.errors import (
    FencedLeaderEpoch,
    GoQueueError,
    InvalidReplicaAssignment,
    InvalidReplication,
    NotLeader,
    WrongDataDirectory,
)
from goqueue.model.ids import (
    Epoch,
    NodeEpoch,
    NodeId,
    PartitionEpoch,
    Timestamp,
    TopicId,
    TopicName,
)
from goqueue.model.machine import Decision
from tests.unit.model.snapshot_checks import check_sliced_snapshot

NOW = Timestamp(1)
FEATURES = {"x": FeatureRange(0, 2)}

Partition = tuple[TopicId, int]


def ids(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


class Cluster:
    """The metadata, its log, and the disks."""

    def __init__(self) -> None:
        self.metadata = Metadata({}, 10)
        self.log: list[bytes] = []
        self.topics = 0
        self.disks: dict[NodeId, tuple[str, int]] = {}
        self.has: dict[tuple[NodeId, Partition], int] = {}  # how many records, by disk
        self.committed: dict[Partition, int] = {}
        self.proposals: list[tuple[NodeId, NodeEpoch, IsrChange]] = []
        self.joining: dict[Partition, set[NodeId]] = {}  # proposed: they must acknowledge, too
        self.asks_unclean = False

    def do(self, decision: Decision[MetadataRecord, Any]) -> Any:
        for record in decision.records:
            before = {(t, i): state for t, i, state in self.metadata.partitions}
            self.log.append(self.metadata.encode(record))
            self.metadata.apply(record)
            self.check_invariants()
            if isinstance(record, PartitionChanged):
                where = record.topic_id, record.partition
                self.follow(where, before[where], record)
        return decision.reply

    def check_invariants(self) -> None:
        nodes = self.metadata.nodes
        for _, _, state in self.metadata.partitions:
            assert state.leader == NO_LEADER or state.leader in state.isr
            assert {*state.isr, *state.elr} <= set(state.replicas)
            assert not set(state.isr) & set(state.elr)
            assert state.isr or state.elr or state.last_known_elr
            for node_id in state.replicas:
                assert node_id not in nodes or nodes[node_id].state != "removed"
            leader = nodes.get(state.leader)
            assert leader is None or leader.state != "fenced"

    def follow(self, where: Partition, before: PartitionState, record: PartitionChanged) -> None:
        """The data after a change of the partition."""
        after = self.metadata.partition(*where)
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch >= before.leader_epoch
        committed = self.committed.get(where, 0)
        self.joining.pop(where, None)
        if record.unclean:
            topic = self.metadata.topic_by_id(where[0])
            assert self.asks_unclean or topic.settings.unclean_leader_election_enable
            self.committed[where] = committed = min(committed, self.records(after.leader, where))
            assert not after.elr
        if after.leader != NO_LEADER:
            assert self.records(after.leader, where) >= committed, (
                "a leader lacks what is committed"
            )
        for node_id in {*after.isr, *after.elr}:
            assert self.records(node_id, where) >= committed, "it is in sync, and lacks something"

    def records(self, node_id: NodeId, where: Partition) -> int:
        return self.has.get((node_id, where), 0)

    # --- what happens -----------------------------------------------------------------------------

    def register(
        self, node_id: NodeId, disk: str = "same", state: NodeState = "fenced", **more: Any
    ) -> Any:
        directory, incarnation = self.disks.get(node_id, (f"{node_id}", 0))
        if disk == "empty":
            directory, incarnation = directory + "'", 0
        elif disk == "older":
            incarnation -= 1
        node = Registration(
            node_id=node_id,
            directory_id=directory,
            incarnation=incarnation + 1,
            **{"machine": f"m{node_id}", "features": FEATURES} | more,
        )
        decision = controller.register_node(self.metadata, node, state=state)
        self.disks[node_id] = directory, incarnation + 1
        if disk != "same":
            for key in [key for key in self.has if key[0] == node_id]:
                del self.has[key]
        return self.do(decision)

    def create(self, **more: Any) -> Any:
        self.topics += 1
        topic_id = TopicId(UUID(int=self.topics))
        name = TopicName(f"t{self.topics}")
        told: dict[str, Any] = {"partitions": 1, "settings": {}} | more
        return self.do(
            controller.create_topic(self.metadata, name, topic_id=topic_id, now=NOW, **told)
        )

    def commit(self, where: Partition) -> None:
        """One record, if the leader may."""
        state = self.metadata.partition(*where)
        least = self.metadata.topic_by_id(where[0]).settings.min_insync_replicas
        if state.leader == NO_LEADER or len(state.isr) < min(least, len(state.replicas)):
            return
        committed, counted = (
            self.committed.get(where, 0),
            {*state.isr, *self.joining.get(where, ())},
        )
        if any(self.records(node_id, where) < committed for node_id in counted):
            return  # one who joins has lost its disk since: nobody acknowledges in its place
        self.committed[where] = committed + 1
        for node_id in counted:
            self.has[node_id, where] = committed + 1

    def propose(self, where: Partition, members: set[NodeId]) -> None:
        """On its way to the controller."""
        state = self.metadata.partition(*where)
        if state.leader == NO_LEADER:
            return
        nodes = self.metadata.nodes
        chosen = [
            each
            for each in state.replicas
            if each == state.leader or (each in members and nodes.live(each))
        ]
        for node_id in set(chosen) - set(state.isr):
            self.has[node_id, where] = self.records(state.leader, where)  # it has caught up
            self.joining.setdefault(where, set()).add(node_id)
        isr = [IsrMember(each, nodes[each].epoch) for each in chosen]
        change = IsrChange(
            topic_id=where[0],
            partition=where[1],
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=isr,
        )
        self.proposals.append((state.leader, nodes[state.leader].epoch, change))

    def alter(self, number: int) -> None:
        node_id, epoch, change = self.proposals[number % len(self.proposals)]
        self.do(controller.alter_partition(self.metadata, node_id, epoch, change))

    def some(self, number: int) -> Partition:
        found = [(topic_id, index) for topic_id, index, _ in self.metadata.partitions]
        return found[number % len(found)]

    def state(self, where: Partition | None = None) -> PartitionState:
        return self.metadata.partition(*(where or self.some(0)))


node_ids = st.integers(1, 4).map(NodeId)
numbers = st.integers(0, 20)
node_sets = st.sets(node_ids, max_size=4)
kinds = st.sampled_from(["preferred", "unclean"])
steps = st.one_of(
    st.tuples(
        st.just("register"),
        node_ids,
        st.sampled_from(["same", "same", "same", "empty", "older"]),
        st.sampled_from(["fenced", "active"]),
    ),
    st.tuples(st.just("fence"), node_ids),
    st.tuples(st.just("unfence"), node_ids),
    st.tuples(st.just("unfence"), node_ids),
    st.tuples(st.just("drain"), node_ids),
    st.tuples(st.just("remove"), node_ids),
    st.tuples(st.just("create"), st.sampled_from([None, 1, 2, 3]), st.integers(1, 3)),
    st.tuples(st.just("grow"), numbers),
    st.tuples(st.just("set"), numbers, st.sampled_from(["1", "2", None]), st.booleans()),
    st.tuples(st.just("delete"), numbers),
    st.tuples(st.just("gone"), node_ids, numbers),
    st.tuples(st.just("commit"), numbers),
    st.tuples(st.just("propose"), numbers, node_sets),
    st.tuples(st.just("alter"), numbers),
    st.tuples(st.just("alter"), numbers),
    st.tuples(st.just("elect"), numbers, kinds),
    st.tuples(st.just("prefer"), numbers),
    st.tuples(st.just("hand over"), node_ids, numbers),
    st.tuples(st.just("reassign"), numbers, st.lists(node_ids, max_size=3)),
    st.tuples(st.just("cancel"), numbers),
    st.tuples(st.just("feature"), st.integers(0, 3)),
)


def take(cluster: Cluster, step: tuple[Any, ...]) -> None:
    metadata, do = cluster.metadata, cluster.do
    names = sorted(metadata.topics)
    match step:
        case ("register", node_id, disk, state):
            cluster.register(node_id, disk, state)
        case ("fence", node_id):
            do(controller.fence_node(metadata, node_id))
        case ("unfence", node_id):
            do(controller.unfence_node(metadata, node_id))
        case ("drain", node_id):
            do(controller.drain_node(metadata, node_id))
        case ("remove", node_id):
            do(controller.remove_node(metadata, node_id))
        case ("create", factor, partitions):
            cluster.create(partitions=partitions, replication_factor=factor)
        case ("grow", number) if names:
            name = names[number % len(names)]
            do(controller.add_partitions(metadata, name, metadata.topics[name].partitions + 1))
        case ("set", number, least, unclean) if names:
            changes = {
                "min.insync.replicas": least,
                "unclean.leader.election.enable": str(unclean).lower(),
            }
            do(controller.change_settings(metadata, names[number % len(names)], changes))
        case ("delete", number) if names:
            do(controller.delete_topic(metadata, names[number % len(names)]))
        case ("gone", node_id, number):
            gone = list(metadata.deleted)[number : number + 1]
            do(controller.note_data_removed(metadata, node_id, gone))
        case ("alter", number) if cluster.proposals:
            cluster.alter(number)
        case ("hand over", node_id, limit):
            do(controller.hand_over(metadata, node_id, limit))
        case ("prefer", limit):
            do(controller.prefer_leaders(metadata, limit))
        case ("feature", level):
            do(controller.set_feature_level(metadata, "x", level))
        case _ if any(True for _ in metadata.partitions):
            take_at(cluster, step)
        case _:
            pass


def take_at(cluster: Cluster, step: tuple[Any, ...]) -> None:
    """What concerns one partition."""
    metadata, do, where = cluster.metadata, cluster.do, cluster.some(step[1])
    match step:
        case ("commit", _):
            cluster.commit(where)
        case ("propose", _, members):
            cluster.propose(where, members)
        case ("elect", _, kind):
            cluster.asks_unclean = kind == "unclean"
            try:
                do(controller.elect_leader(metadata, *where, kind))
            finally:
                cluster.asks_unclean = False
        case ("reassign", _, replicas):
            do(controller.reassign(metadata, *where, replicas))
        case ("cancel", _):
            do(controller.cancel_reassignment(metadata, *where))
        case _:
            pass


def everything(metadata: Metadata) -> object:
    return (
        dict(metadata.nodes),
        dict(metadata.topics),
        dict(metadata.deletions),
        list(metadata.partitions),
        dict(metadata.features),
        [
            (metadata.partitions.replica_count(each), metadata.partitions.leader_count(each))
            for each in ids(1, 2, 3, 4)
        ],
    )


def new_machine() -> Metadata:
    return Metadata({}, 10)


@settings(max_examples=60)
@given(st.lists(steps, min_size=10, max_size=60), st.integers(0, 60))
def test_records_keep_the_invariants_and_leaders_have_what_is_committed(
    taken: list[tuple[Any, ...]], snapshot_at: int
):
    cluster = Cluster()
    for node_id in ids(1, 2, 3):
        cluster.register(node_id, state="active")
    cluster.create(replication_factor=3)
    for step in taken:
        before = everything(cluster.metadata)
        try:
            take(cluster, step)
        except GoQueueError:
            assert everything(cluster.metadata) == before, "a refusal changes nothing"
    assert everything(cluster.metadata.copy()) == everything(cluster.metadata)
    begins_at = min(snapshot_at, len(cluster.log))
    check_sliced_snapshot(new_machine, cluster.log, everything, begins_at=begins_at, steps=(1, 0))


# --- registration -------------------------------------------------------------------------------


def cluster_of(count: int, **more: Any) -> Cluster:
    """Active nodes, and a topic on all of them."""
    cluster = Cluster()
    for number in range(1, count + 1):
        cluster.register(NodeId(number), state="active")
    cluster.create(replication_factor=count, **more)
    return cluster


def test_the_same_disk_stays_in_sync_and_leads_in_a_new_epoch():
    cluster = cluster_of(3)
    before = cluster.state()
    cluster.register(before.leader, state="active")
    after = cluster.state()
    assert (after.leader, after.isr) == (before.leader, before.isr)
    assert after.leader_epoch == before.leader_epoch + 1


def test_a_lone_replica_keeps_its_epoch_over_a_restart():
    cluster = cluster_of(1)
    before = cluster.state()
    cluster.register(NodeId(1), state="active")
    assert cluster.state() == before


@pytest.mark.parametrize("disk", ["empty", "older"])
@pytest.mark.parametrize("state", ["active", "fenced"])
def test_another_disk_leaves_every_isr_in_the_entry_that_registers_it(disk: str, state: NodeState):
    cluster = cluster_of(3, partitions=3)
    cluster.register(NodeId(1))
    cluster.register(NodeId(1), disk, state)
    for index in range(3):
        found = cluster.metadata.partition(TopicId(UUID(int=1)), index)
        assert NodeId(1) not in (*found.isr, *found.elr, found.leader)
        assert found.leader in ids(2, 3)


@pytest.mark.parametrize(("flush", "stays"), [("commit", True), ("interval", False)])
def test_a_node_that_crashed_may_lack_what_was_not_synced(flush: str, stays: bool):
    """It registers before anybody has noticed, or nobody else could."""
    cluster = cluster_of(3, partitions=3, settings={"flush": flush})
    for _ in range(2):  # a restart
        cluster.register(NodeId(1), state="active")
    for index in range(3):
        found = cluster.metadata.partition(TopicId(UUID(int=1)), index)
        assert (NodeId(1) in found.isr) == stays
        assert found.leader in ids(1, 2, 3) if stays else ids(2, 3)


def test_a_node_that_crashed_leads_if_nobody_else_has_more():
    cluster = cluster_of(3, settings={"flush": "interval"})
    for each in ids(2, 3):
        cluster.register(each)  # fenced: they are down
    cluster.register(NodeId(1), state="active")
    assert cluster.state().leader == 1


@pytest.mark.parametrize(
    ("disk", "problem"),
    [("empty", "another data directory"), ("older", "older copy")],
)
def test_another_disk_is_refused_while_the_first_one_is_the_last_replica(disk: str, problem: str):
    cluster = cluster_of(1)
    with pytest.raises(WrongDataDirectory, match=rf"(?s){problem}.* has all of t1-0"):
        cluster.register(NodeId(1), disk)


def test_a_late_proposal_does_not_bring_back_a_node_that_lost_its_disk():
    cluster = cluster_of(3)
    leader = cluster.state().leader
    other = next(each for each in ids(1, 2, 3) if each != leader)
    cluster.propose(cluster.some(0), set(ids(1, 2, 3)))
    cluster.register(other, "empty", "active")
    with pytest.raises(StalePartitionEpoch):
        cluster.alter(0)
    late = msgspec.structs.replace(
        cluster.proposals[0][2], partition_epoch=cluster.state().partition_epoch
    )
    cluster.proposals[0] = (*cluster.proposals[0][:2], late)
    with pytest.raises(IneligibleReplica):
        cluster.alter(0)


def test_the_later_of_two_processes_with_one_id_is_the_node():
    cluster = cluster_of(2)
    first = cluster.metadata.nodes[NodeId(1)].epoch
    cluster.register(NodeId(1), state="active")
    for refused in (controller.fence_node, controller.unfence_node, controller.drain_node):
        with pytest.raises(StaleNodeEpoch):
            refused(cluster.metadata, NodeId(1), first)


def test_a_removed_node_is_not_welcome():
    cluster = cluster_of(1)
    cluster.register(NodeId(2), state="active")
    cluster.do(controller.remove_node(cluster.metadata, NodeId(2)))
    with pytest.raises(WrongDataDirectory, match="was removed"):
        cluster.register(NodeId(2))
    with pytest.raises(NodeNotFound):
        controller.fence_node(cluster.metadata, NodeId(2))
    with pytest.raises(NodeInUse, match="1 replicas"):
        controller.remove_node(cluster.metadata, NodeId(1))


def test_topics_from_before_placements_are_on_the_node_that_there_was():
    metadata = new_machine()
    for value in (
        b'{"type":"cluster","cluster_id":"c"}',
        b'{"type":"node","node_id":7,"directory_id":"d","incarnation":3,"epoch":3}',
        b'{"type":"topic","topic_id":"00000000-0000-0000-0000-000000000001","name":"t",'
        b'"partitions":1,"settings":{},"created_at":1}',
        b'{"type":"partitions","topic_id":"00000000-0000-0000-0000-000000000001","partitions":2}',
        b'{"type":"deleted","topic_id":"00000000-0000-0000-0000-000000000002"}',
        b'{"type":"deleted","topic_id":"00000000-0000-0000-0000-000000000003"}',
        b'{"type":"data-removed","topic_id":"00000000-0000-0000-0000-000000000003"}',
    ):
        metadata.apply(metadata.decode(value))
    assert metadata.nodes[NodeId(7)].state == "active"
    assert [topic.name for topic in metadata.unplaced] == ["t"]
    again = Registration(node_id=NodeId(8), directory_id="e", incarnation=1)
    for record in controller.register_node(metadata, again).records:
        metadata.apply(record)
    assert not metadata.unplaced
    assert [state.replicas for _, _, state in metadata.partitions] == [ids(7), ids(7)]
    assert metadata.role(NodeId(7), TopicId(UUID(int=1)), 1) == Leader.alone(NodeId(7), Epoch(0))
    gone = controller.note_data_removed(metadata, NodeId(7), list(metadata.deleted))
    for record in gone.records:
        metadata.apply(record)
    assert not metadata.deleted


# --- nodes that come and go ---------------------------------------------------------------------


def test_the_death_of_a_node_is_one_decision():
    cluster = cluster_of(3, partitions=9)
    decision = controller.fence_node(cluster.metadata, NodeId(1))
    assert isinstance(decision.records[-1], NodeChanged)
    cluster.do(decision)
    states = [state for _, _, state in cluster.metadata.partitions]
    assert {state.leader for state in states} == set(ids(2, 3))
    assert all(set(state.isr) == set(ids(2, 3)) for state in states)


def test_the_last_in_sync_leads_again_when_it_is_back():
    cluster = cluster_of(3)
    order = cluster.state().isr
    for node_id in order:
        cluster.do(controller.fence_node(cluster.metadata, node_id))
    state = cluster.state()
    assert (state.leader, state.isr) == (NO_LEADER, order[-1:])
    assert set(state.elr) == {order[1]}, "it left when nothing could be committed any more"
    cluster.do(controller.unfence_node(cluster.metadata, order[0]))
    assert cluster.state().leader == NO_LEADER, "it may lack what the other two committed"
    cluster.do(controller.unfence_node(cluster.metadata, order[1]))
    assert cluster.state().leader == order[1]
    assert cluster.state().elr == order[-1:]
    assert cluster.state().unclean_epoch == -1


def test_an_unclean_leader_is_elected_only_on_demand_and_the_epoch_says_so():
    cluster = cluster_of(3)
    order = cluster.state().isr
    for node_id in order:
        cluster.do(controller.fence_node(cluster.metadata, node_id))
    cluster.do(controller.unfence_node(cluster.metadata, order[0]))
    where = cluster.some(0)
    with pytest.raises(LeaderNotAvailable):
        controller.elect_leader(cluster.metadata, *where, "preferred")
    cluster.asks_unclean = True
    cluster.do(controller.elect_leader(cluster.metadata, *where, "unclean"))
    state = cluster.state()
    assert (state.leader, state.isr, state.elr) == (order[0], order[:1], ())
    assert state.unclean_epoch == state.leader_epoch
    with pytest.raises(ElectionNotNeeded):
        controller.elect_leader(cluster.metadata, *where, "unclean")


def test_a_node_that_drains_hands_over_in_slices_and_gets_nothing_new():
    cluster = cluster_of(3, partitions=9)
    cluster.do(controller.drain_node(cluster.metadata, NodeId(1)))
    moved = [cluster.do(controller.hand_over(cluster.metadata, NodeId(1), 2)) for _ in range(3)]
    assert moved == [2, 1, 0]
    assert cluster.metadata.partitions.leader_count(NodeId(1)) == 0
    assert cluster.create().replication_factor == 2
    cluster.do(controller.unfence_node(cluster.metadata, NodeId(1)))
    assert cluster.do(controller.prefer_leaders(cluster.metadata, 2)) == 2
    assert cluster.do(controller.prefer_leaders(cluster.metadata, 9)) == 1
    assert cluster.metadata.partitions.leader_count(NodeId(1)) == 3


# --- who is in sync -----------------------------------------------------------------------------


def member(cluster: Cluster, node_id: NodeId) -> IsrMember:
    return IsrMember(node_id, cluster.metadata.nodes[node_id].epoch)


def change_of(cluster: Cluster, *isr: IsrMember, **more: Any) -> IsrChange:
    state, (topic_id, index) = cluster.state(), cluster.some(0)
    told: dict[str, Any] = {
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "isr": isr,
    }
    return IsrChange(topic_id=topic_id, partition=index, **(told | more))


def ask(cluster: Cluster, node_id: NodeId, change: IsrChange) -> Any:
    epoch = cluster.metadata.nodes[node_id].epoch
    return controller.alter_partition(cluster.metadata, node_id, epoch, change)


def test_only_the_leader_may_say_who_is_in_sync():
    cluster = cluster_of(3)
    leader, second, third = cluster.state().isr
    sole = member(cluster, leader)
    with pytest.raises(NotLeader):
        ask(cluster, second, change_of(cluster, member(cluster, second)))
    with pytest.raises(FencedLeaderEpoch):
        ask(cluster, leader, change_of(cluster, sole, leader_epoch=Epoch(9)))
    with pytest.raises(StalePartitionEpoch):
        ask(cluster, leader, change_of(cluster, sole, partition_epoch=PartitionEpoch(9)))
    granted = cluster.do(ask(cluster, leader, change_of(cluster, sole)))
    assert granted == cluster.state()
    assert (granted.isr, set(granted.elr)) == ((leader,), {second, third})
    cluster.do(controller.fence_node(cluster.metadata, second))
    with pytest.raises(IneligibleReplica):
        ask(cluster, leader, change_of(cluster, sole, member(cluster, second)))


def test_who_lost_data_is_not_eligible():
    cluster = cluster_of(2)
    leader, other = cluster.state().isr
    change = change_of(cluster, member(cluster, leader), lost_data=(other,))
    cluster.do(ask(cluster, leader, change))
    assert cluster.state().elr == ()


def test_a_leader_that_leaves_itself_out_resigns():
    cluster = cluster_of(3)
    leader, second, third = cluster.state().isr
    members = [member(cluster, second), member(cluster, third)]
    cluster.do(ask(cluster, leader, change_of(cluster, *members)))
    state = cluster.state()
    assert (state.leader, state.isr, state.elr) == (second, (second, third), ())


def test_fewer_that_must_be_in_sync_end_what_was_eligible():
    cluster = cluster_of(3)
    leader = cluster.state().leader
    cluster.do(ask(cluster, leader, change_of(cluster, member(cluster, leader))))
    assert cluster.state().elr
    changes = {"min.insync.replicas": "1"}
    cluster.do(controller.change_settings(cluster.metadata, "t1", changes))
    assert cluster.state().elr == ()


# --- placement ----------------------------------------------------------------------------------


def spread(machines: str, racks: str = "", **more: Any) -> Cluster:
    """A node for each letter."""
    cluster = Cluster()
    for number, machine in enumerate(machines, 1):
        rack = racks[number - 1] if racks else ""
        cluster.register(NodeId(number), state="active", machine=machine, rack=rack)
    cluster.create(**more)
    return cluster


@pytest.mark.parametrize(
    ("machines", "factor", "least"),
    [("a", 1, 1), ("aaa", 1, 1), ("ab", 2, 2), ("abc", 3, 2), ("aabbccdd", 3, 2)],
)
def test_by_default_each_machine_has_one_of_three_replicas(machines: str, factor: int, least: int):
    cluster = spread(machines)
    topic = cluster.metadata.topic("t1")
    assert (topic.replication_factor, topic.settings.min_insync_replicas) == (factor, least)
    assert len({machines[each - 1] for each in cluster.state().replicas}) == factor


def test_replicas_are_on_different_machines_then_racks_and_evenly_spread():
    machines, racks = "aabbccdd", "xxxxyyyy"
    cluster = spread(machines, racks, partitions=8, replication_factor=2)
    states = [state for _, _, state in cluster.metadata.partitions]
    for state in states:
        assert len({racks[each - 1] for each in state.replicas}) == 2
    table = cluster.metadata.partitions
    assert {table.leader_count(NodeId(each)) for each in range(1, 9)} == {1}
    assert {table.replica_count(NodeId(each)) for each in range(1, 9)} == {2}
    again = spread(machines, racks, partitions=8, replication_factor=2)
    assert list(again.metadata.partitions) == list(table), "the same, whenever it is asked"


def test_a_topic_is_spread_over_all_nodes_whatever_others_have():
    cluster = cluster_of(3)
    for _ in range(2):
        cluster.create(assignments=[ids(1)])
    topic = cluster.create(partitions=3, replication_factor=1)
    leaders = [state.leader for state in cluster.metadata.partitions.of(topic.topic_id)]
    assert sorted(leaders) == [1, 2, 3]


def test_a_fenced_node_is_given_replicas_and_is_not_in_sync():
    cluster = cluster_of(3)
    cluster.do(controller.fence_node(cluster.metadata, NodeId(1)))
    topic = cluster.create()
    state = cluster.metadata.partition(topic.topic_id, 0)
    assert topic.replication_factor == 3
    assert set(state.isr) == set(ids(2, 3))


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"replication_factor": 4}, InvalidReplication, "factor 4, and there are 3 nodes"),
        ({"assignments": [[1], [2]]}, InvalidReplicaAssignment, "2 lists"),
        ({"assignments": [[1, 9]]}, InvalidReplicaAssignment, "only nodes 1, 2, 3"),
        ({"assignments": [[1, 1]]}, InvalidReplicaAssignment, "named twice"),
        ({"assignments": [[]]}, InvalidReplicaAssignment, "at least one"),
    ],
)
def test_what_cannot_be_placed_is_refused(more: Any, error: type[GoQueueError], text: str):
    with pytest.raises(error, match=text):
        cluster_of(3).create(**more)


def test_replicas_are_placed_as_told():
    cluster = cluster_of(3)
    topic = cluster.create(partitions=2, assignments=[ids(3, 1), ids(2, 3)])
    states = cluster.metadata.partitions.of(topic.topic_id)
    assert [state.replicas for state in states] == [ids(3, 1), ids(2, 3)]
    assert [state.leader for state in states] == list(ids(3, 2))


# --- reassignment -------------------------------------------------------------------------------


def moving() -> Cluster:
    """A topic on nodes 1 and 2, which shall be on 3 and 2."""
    cluster = cluster_of(1)
    for node_id in ids(2, 3):
        cluster.register(node_id, state="active")
    cluster.do(controller.delete_topic(cluster.metadata, "t1"))
    cluster.create(assignments=[ids(1, 2)])
    cluster.do(controller.reassign(cluster.metadata, *cluster.some(0), ids(3, 2)))
    return cluster


def test_replicas_move_once_the_new_ones_are_in_sync():
    cluster = moving()
    state = cluster.state()
    assert (state.replicas, state.adding, state.removing) == (ids(3, 2, 1), ids(3), ids(1))
    assert (state.leader, set(state.isr)) == (NodeId(1), set(ids(1, 2)))
    members = [member(cluster, each) for each in ids(1, 2, 3)]
    cluster.do(ask(cluster, NodeId(1), change_of(cluster, *members)))
    state = cluster.state()
    assert (state.replicas, state.adding, state.removing) == (ids(3, 2), (), ())
    assert (state.leader, state.isr) == (NodeId(3), ids(3, 2))


def test_fewer_replicas_in_the_same_order_are_another_replication_factor():
    cluster = cluster_of(3)
    order = cluster.state().replicas
    cluster.do(controller.fence_node(cluster.metadata, order[0]))
    cluster.do(controller.reassign(cluster.metadata, *cluster.some(0), order[:1]))
    assert (cluster.state().replicas, cluster.state().removing) == (order, order[1:])
    assert cluster.metadata.topic("t1").replication_factor == 1
    assert cluster.metadata.topic("t1").settings.min_insync_replicas == 1


def test_a_reassignment_can_be_given_up():
    cluster = moving()
    where = cluster.some(0)
    cluster.do(controller.cancel_reassignment(cluster.metadata, *where))
    state = cluster.state()
    assert (set(state.replicas), state.adding, state.leader) == (set(ids(1, 2)), (), NodeId(1))
    with pytest.raises(NoReassignment):
        controller.cancel_reassignment(cluster.metadata, *where)


# --- features, roles, tombstones ----------------------------------------------------------------


def test_a_feature_rises_to_what_all_nodes_support():
    cluster = cluster_of(2)
    cluster.register(NodeId(2), state="active", features={"x": FeatureRange(1, 1)})
    with pytest.raises(FeatureRefused, match="node 2 supports 1 to 1"):
        controller.set_feature_level(cluster.metadata, "x", 2)
    with pytest.raises(FeatureRefused, match="node 1 does not know it"):
        controller.set_feature_level(cluster.metadata, "y", 1)
    cluster.do(controller.set_feature_level(cluster.metadata, "x", 1))
    assert cluster.metadata.features == {"x": 1}
    with pytest.raises(FeatureRefused, match="does not go back"):
        controller.set_feature_level(cluster.metadata, "x", 0)
    with pytest.raises(FeatureRefused, match="node 3 does not know it"):
        cluster.register(NodeId(3), features={})


def test_a_node_leads_follows_or_neither():
    cluster = cluster_of(2)
    leader, other = cluster.state().isr
    where = cluster.some(0)
    role = cluster.metadata.role(leader, *where)
    assert isinstance(role, Leader)
    assert role.isr == frozenset((leader, other))
    assert cluster.metadata.role(other, *where) == Follower(leader, Epoch(0))
    assert isinstance(cluster.metadata.role(NodeId(9), *where), Offline)
    cluster.do(controller.fence_node(cluster.metadata, leader))
    cluster.do(controller.fence_node(cluster.metadata, other))
    assert isinstance(cluster.metadata.role(other, *where), Offline)


def test_a_deleted_topic_is_remembered_until_each_node_has_removed_its_data():
    cluster = cluster_of(2)
    (topic_id,) = (topic.topic_id for topic in cluster.metadata.topics.values())
    cluster.do(controller.delete_topic(cluster.metadata, "t1"))
    assert cluster.metadata.deletions == {topic_id: ids(1, 2)}
    cluster.do(controller.note_data_removed(cluster.metadata, NodeId(1), [topic_id]))
    assert cluster.metadata.deletions == {topic_id: ids(2)}
    cluster.do(controller.remove_node(cluster.metadata, NodeId(2)))
    assert not cluster.metadata.deletions


def test_placements_are_written_once_and_read_back():
    cluster = cluster_of(1)
    found = [cluster.metadata.decode(value) for value in cluster.log]
    (created,) = (each for each in found if isinstance(each, TopicCreated))
    assert created.placements == (cluster.state(),)
