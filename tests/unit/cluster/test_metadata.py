"""The metadata machine: replay equals live, snapshots too, whatever was asked of it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster import Metadata, MetadataRecord, controller
from goqueue.cluster.controller import Registration
from goqueue.cluster.metadata import TopicCreated
from goqueue.model.errors import (
    GoQueueError,
    InvalidPartitions,
    InvalidSetting,
    PolicyViolation,
    TopicExists,
    TopicIdNotFound,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, NodeId, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from tests.unit.model.snapshot_checks import check_sliced_snapshot

DEFAULTS = {"retention.ms": "1000"}
NOW = Timestamp(1_750_000_000_000)

Command = tuple[Any, ...]

names = st.sampled_from(["a", "b", "a.b", "a_b", "__own"]).map(TopicName)
settings = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.bytes", "flush", "no.such"]),
    st.sampled_from(["5", "2048", "never", "nonsense"]),
    max_size=2,
)
changes = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.bytes", "flush", "no.such"]),
    st.sampled_from([None, "5", "2048", "never"]),
    max_size=2,
)
groups = st.sampled_from(["g", "h"]).map(GroupId)
group_texts = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
group_changes = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([None, "1", "2"]))
commands = st.one_of(
    st.tuples(st.just("create"), names, st.integers(-1, 12), settings),
    st.tuples(st.just("grow"), names, st.integers(-1, 12)),
    st.tuples(st.just("change"), names, changes, st.booleans()),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("removed"), st.integers(0, 2)),
    st.tuples(st.just("ids"), st.integers(1, 2000)),
    st.tuples(st.just("group"), groups, group_changes),
    st.tuples(st.just("take over"), st.dictionaries(groups, group_texts, max_size=2)),
    st.tuples(st.just("name"), st.text(min_size=1, max_size=3)),
    st.tuples(
        st.just("node"),
        st.integers(1, 2).map(NodeId),
        st.sampled_from(["disk a", "disk b"]),
        st.integers(1, 5),
        st.booleans(),
    ),
)


def new_machine() -> Metadata:
    return Metadata(DEFAULTS, partitions_max=10)


def new_id(number: int) -> TopicId:
    return TopicId(UUID(int=number))


def decide(machine: Metadata, command: Command, number: int) -> Decision[MetadataRecord, Any]:
    match command:
        case ("create", name, partitions, chosen):
            return controller.create_topic(
                machine,
                name,
                topic_id=new_id(number),
                partitions=partitions,
                settings=chosen,
                now=NOW,
            )
        case ("grow", name, partitions):
            return controller.add_partitions(machine, name, partitions)
        case ("change", name, chosen, replace):
            return controller.change_settings(machine, name, chosen, replace=replace)
        case ("delete", name):
            return controller.delete_topic(machine, name)
        case ("removed", which):
            return controller.note_data_removed(
                machine, NodeId(1), list(machine.deleted)[which : which + 1]
            )
        case ("ids", count):
            return controller.reserve_producer_ids(machine, count)
        case ("group", group, chosen):
            return controller.change_group_config(machine, group, chosen)
        case ("take over", chosen):
            return controller.take_over_group_configs(machine, chosen)
        case ("name", text):
            return controller.name_cluster(machine, text)
        case ("node", node_id, directory_id, incarnation, same):
            return controller.register_node(
                machine,
                Registration(
                    node_id=node_id,
                    directory_id=directory_id,
                    incarnation=incarnation,
                    machine=directory_id,
                ),
                state="active",
                is_same_disk=same,
            )
        case _:
            raise AssertionError(command)


def state_of(machine: Metadata) -> object:
    again = controller.take_over_group_configs(machine, {GroupId("late"): {"x": "1"}})
    return (
        machine.cluster_id,
        machine.next_producer_id,
        dict(machine.topics),
        dict(machine.nodes),
        dict(machine.deletions),
        list(machine.partitions),
        dict(machine.features),
        dict(machine.broker_configs),
        dict(machine.group_configs),
        bool(again.records),
    )


def replay(machine: Metadata, records: list[bytes]) -> Metadata:
    for record in records:
        machine.apply(machine.decode(record))
    return machine


@given(st.lists(commands, max_size=40), st.integers(0, 40))
def test_a_replay_gives_the_same_state_from_the_beginning_or_from_a_snapshot(
    asked: list[Command], snapshot_after: int
):
    live = new_machine()
    log: list[bytes] = []
    snapshot: tuple[list[bytes], int] = ([], 0)
    for number, command in enumerate(asked):
        before = state_of(live)
        try:
            decision = decide(live, command, number)
        except GoQueueError:
            assert state_of(live) == before, "a refusal changes nothing"
            continue
        assert state_of(live) == before, "a decision changes nothing"
        for record in decision.records:
            log.append(live.encode(record))
            live.apply(record)
        if number == snapshot_after:
            snapshot = ([live.encode(record) for record in live.snapshot()], len(log))
    assert state_of(replay(new_machine(), log)) == state_of(live)
    from_snapshot = replay(new_machine(), snapshot[0])
    assert state_of(replay(from_snapshot, log[snapshot[1] :])) == state_of(live)
    check_sliced_snapshot(
        new_machine, log, state_of, begins_at=min(snapshot_after, len(log)), steps=(1, 0, 2)
    )
    for name, topic in live.topics.items():
        assert live.topic_by_id(topic.topic_id) == live.topic(name) == topic
        assert live.has_id(topic.topic_id)


@given(st.lists(commands, max_size=40))
def test_what_is_answered_is_what_comes_to_be(asked: list[Command]):
    machine = new_machine()
    given_ids: set[int] = set()
    for number, command in enumerate(asked):
        try:
            decision = decide(machine, command, number)
        except GoQueueError:
            continue
        for record in decision.records:
            machine.apply(record)
        if command[0] in ("create", "grow", "change"):
            assert machine.topic(command[1]) == decision.reply
        elif command[0] == "delete":
            assert machine.find(command[1]) is None
        elif command[0] == "ids":
            first = decision.reply
            assert isinstance(first, int)
            block = set(range(first, first + command[1]))
            assert not block & given_ids
            given_ids |= block
        elif command[0] == "node":
            assert machine.nodes[command[1]] == decision.reply
            epochs = [each.epoch for each in machine.nodes.values()]
            assert decision.reply.epoch == max(epochs)
            assert len(set(epochs)) == len(epochs)
        assert state_of(machine.copy()) == state_of(machine)


def with_topic(partitions: int = 2) -> Metadata:
    machine = new_machine()
    decision = controller.create_topic(
        machine, TopicName("t"), topic_id=new_id(1), partitions=partitions, settings={}, now=NOW
    )
    for record in decision.records:
        machine.apply(record)
    return machine


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (lambda m: controller.add_partitions(m, "t", 2), InvalidPartitions),
        (lambda m: controller.add_partitions(m, "t", 11), InvalidPartitions),
        (lambda m: controller.add_partitions(m, "no", 3), TopicNotFound),
        (lambda m: controller.delete_topic(m, "no"), TopicNotFound),
        (lambda m: controller.change_settings(m, "t", {"no.such": "1"}), InvalidSetting),
        (lambda m: controller.change_settings(m, "t", {"flush": "maybe"}), InvalidSetting),
        (lambda m: m.topic_by_id(new_id(9)), TopicIdNotFound),
        (lambda m: decide(m, ("create", "t", 1, {}), 2), TopicExists),
        (lambda m: decide(m, ("create", "u", 0, {}), 2), InvalidPartitions),
        (lambda m: decide(m, ("create", "u", 1, {"segment.bytes": "1"}), 2), InvalidSetting),
    ],
)
def test_nonsense_is_refused(refused: Callable[[Metadata], object], error: type[GoQueueError]):
    with pytest.raises(error):
        refused(with_topic())


def test_names_that_metrics_could_not_tell_apart_are_refused():
    machine = new_machine()
    for record in decide(machine, ("create", "a.b", 1, {}), 1).records:
        machine.apply(record)
    with pytest.raises(PolicyViolation):
        decide(machine, ("create", "a_b", 1, {}), 2)


def test_a_duration_is_kept_in_milliseconds():
    machine = with_topic()
    changed = controller.change_settings(
        machine, "t", {"retention.ms": "7d", "goqueue.ttl.ms": "1m30s"}
    )
    assert changed.reply.overrides == {"retention.ms": "604800000", "goqueue.ttl.ms": "90000"}
    assert changed.reply.settings.retention_ms == 604_800_000
    with pytest.raises(InvalidSetting, match="'soon' is not a duration: write"):
        controller.change_settings(machine, "t", {"retention.ms": "soon"})


def test_more_replicas_in_sync_than_there_are_cannot_be_asked_for():
    machine = new_machine()
    two = {"min.insync.replicas": "2"}
    with pytest.raises(InvalidSetting, match=r"min\.insync\.replicas=2: .* factor 1"):
        decide(machine, ("create", TopicName("t"), 1, two), 1)
    for record in decide(machine, ("create", TopicName("t"), 1, {}), 1).records:
        machine.apply(record)
    with pytest.raises(InvalidSetting, match=r"min\.insync\.replicas=2"):
        decide(machine, ("change", "t", two, False), 2)
    assert machine.topic("t").settings.min_insync_replicas == 1


def test_a_topic_from_before_that_was_looked_at_stays_as_it_is():
    machine = new_machine()
    machine.apply(TopicCreated(new_id(1), TopicName("t"), 1, {"min.insync.replicas": "2"}, NOW))
    changed = decide(machine, ("change", "t", {"retention.ms": "5"}, False), 2).reply
    assert changed.settings.min_insync_replicas == 2
    unset = decide(machine, ("change", "t", {"min.insync.replicas": None}, False), 2).reply
    assert unset.settings.min_insync_replicas == 1


def test_settings_come_from_the_topic_then_the_server_then_the_product():
    machine = with_topic()
    assert machine.topic("t").settings.retention_ms == 1000
    for record in controller.change_settings(machine, "t", {"retention.ms": "7"}).records:
        machine.apply(record)
    assert machine.topic("t").settings.retention_ms == 7
    assert controller.change_settings(machine, "t", {"retention.ms": "7"}).records == ()
    for record in controller.change_settings(machine, "t", {"retention.ms": None}).records:
        machine.apply(record)
    assert machine.topic("t").settings.retention_ms == 1000
    assert machine.topic("t").overrides == {}
