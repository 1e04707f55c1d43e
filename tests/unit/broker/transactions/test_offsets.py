"""Offsets that a group commits with a transaction which another node coordinates."""

import pytest

from goqueue.broker.cluster.coordinator_topics import TRANSACTIONS_TOPIC, shard_of
from goqueue.broker.transactions import offsets
from goqueue.broker.transactions.offsets import EventCounts
from goqueue.groups import CommitRequest
from goqueue.model.errors import NotCoordinator
from goqueue.model.ids import GroupId, NodeId
from goqueue.txn.errors import ConcurrentTransactions, InvalidTransactionState, ProducerFenced
from goqueue.wire.node_messages import NodeApi
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.shards import (
    HOSTS,
    NAMES,
    SHARDS,
    add,
    apart,
    begin,
    committed,
    end,
    found,
    group_node,
    has_moved,
    holds_nothing,
    is_spread,
    move,
    offset,
    three_nodes,
    transaction_node,
)


@pytest.mark.parametrize("asked", ["the group's coordinator", "the transaction's coordinator"])
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("bumps_epoch", [True, False], ids=["own epoch", "same epoch"])
def test_offsets_of_a_group_elsewhere_are_committed_with_the_transaction(
    asked: str, commits: bool, bumps_epoch: bool
):
    with three_nodes() as nodes:
        run = nodes.world.run
        name, group = apart(nodes)
        mine, its = found(transaction_node, nodes, name), found(group_node, nodes, group)
        who = run(begin(mine, name))
        at = its if asked == "the group's coordinator" else mine
        for number in (7, 8):  # one transaction after the other
            run(add(at, name, who, group, number))
            assert its.groups.pending_transactions() == {(group, who.producer_id, who.epoch)}
            who = run(end(mine, name, who, commits=commits, bumps=bumps_epoch))
            nodes.world.run_until(holds_nothing(its), limit_s=10)
            assert run(committed(its, group)) == (number if commits else None)


def test_offsets_held_back_outlive_both_coordinators():
    with three_nodes() as nodes:
        run = nodes.world.run
        name, group = apart(nodes)
        mine, its = found(transaction_node, nodes, name), found(group_node, nodes, group)
        who = run(begin(mine, name))
        run(add(its, name, who, group, 7))
        for broker in (mine, its):
            if broker is not nodes.brokers.get("a"):  # which has the only vote
                host = HOSTS[int(broker.node_id)]
                nodes.stop(host, power=True)
                found(transaction_node, nodes, name)
                found(group_node, nodes, group)
                nodes.start(host)
                nodes.world.run_until(lambda: is_spread(nodes), limit_s=120)
        mine = found(transaction_node, nodes, name)
        run(end(mine, name, who))
        its = found(group_node, nodes, group)
        nodes.world.run_until(holds_nothing(its), limit_s=30)
        assert run(committed(its, group)) == 7


def test_a_marker_that_overtakes_the_word_for_a_group_is_noticed():
    """Each time that the transaction's coordinator says yes, the transaction ends at once."""

    async def story(nodes: ClusterWorld) -> None:
        name, group = apart(nodes)
        mine, its = transaction_node(nodes, name), group_node(nodes, group)
        assert mine is not None
        assert its is not None
        admit = mine.cluster.handlers[NodeApi.ADMIT_TO_TRANSACTION]
        who = await begin(mine, name)

        async def end_first(node_id: NodeId, request: object) -> object:
            answer = await admit(node_id, request)
            await mine.transactions.end(name, who, commits=False, bumps_epoch=False)
            return answer

        mine.cluster.handlers[NodeApi.ADMIT_TO_TRANSACTION] = end_first
        request = CommitRequest(group_id=GroupId(group), offsets=(offset(7),))
        with pytest.raises(ConcurrentTransactions):
            await its.transactions.add_offsets(name, who, request, adds_group=True)
        assert its.groups.pending_transactions() == set()

    with three_nodes() as nodes:
        nodes.world.run(story(nodes))


def test_a_coordinator_s_epoch_is_its_shard_s():
    """One shard has moved often: markers of the others, with smaller epochs, are no older ones."""
    with three_nodes() as nodes:
        run = nodes.world.run
        moved, still = (
            "name-0",
            next(each for each in NAMES if shard_of(each, SHARDS) != shard_of("name-0", SHARDS)),
        )
        group = NAMES[1]
        for _ in range(2):
            former = found(transaction_node, nodes, moved)
            move(nodes, TRANSACTIONS_TOPIC, shard_of(moved, SHARDS), former)
            nodes.world.run_until(has_moved(nodes, moved, former), limit_s=30)
        epochs = [
            found(transaction_node, nodes, each).transactions.host_of(each).epoch
            for each in (moved, still)
        ]
        assert epochs[0] > epochs[1]
        for number, name in enumerate((moved, still)):
            mine, its = found(transaction_node, nodes, name), found(group_node, nodes, group)
            who = run(begin(mine, name))
            run(add(its, name, who, group, number))
            run(end(mine, name, who))
            nodes.world.run_until(holds_nothing(its), limit_s=10)
            assert run(committed(its, group)) == number


def test_offsets_that_no_coordinator_knows_are_dropped_and_not_while_one_is_silent():
    stranger = CommitRequest(
        group_id=GroupId(NAMES[0]), offsets=(offset(7),), producer_id=4711, producer_epoch=3
    )
    with three_nodes() as nodes:
        its = found(group_node, nodes, NAMES[0])
        nodes.world.run(its.groups.commit(stranger))
        other = next(each for each in nodes.brokers.values() if each is not its)
        answer = other.cluster.handlers[NodeApi.FIND_ORPHANS]

        async def refuse(*_: object) -> object:
            raise NotCoordinator("not yet")

        other.cluster.handlers[NodeApi.FIND_ORPHANS] = refuse
        nodes.world.run_for(150)
        assert its.groups.pending_transactions(), "not all have answered"
        other.cluster.handlers[NodeApi.FIND_ORPHANS] = answer
        nodes.world.run_until(holds_nothing(its), limit_s=100)
        assert nodes.world.run(committed(its, NAMES[0])) is None


def test_offsets_that_a_coordinator_knows_are_kept():
    with three_nodes() as nodes:
        run = nodes.world.run
        name, group = apart(nodes)
        mine, its = found(transaction_node, nodes, name), found(group_node, nodes, group)
        who = run(begin(mine, name, timeout_ms=300_000))
        run(add(its, name, who, group, 7))
        nodes.world.run_for(150)
        assert its.groups.pending_transactions()


def test_the_group_s_coordinator_refuses_as_the_transaction_s_does():
    with three_nodes() as nodes:
        run = nodes.world.run
        name, group = apart(nodes)
        mine, its = found(transaction_node, nodes, name), found(group_node, nodes, group)
        who = run(begin(mine, name))
        request = CommitRequest(group_id=GroupId(group), offsets=(offset(7),))

        async def add_late() -> None:
            await its.transactions.add_offsets(name, who, request, adds_group=False)

        with pytest.raises(InvalidTransactionState):  # older clients add the group first
            run(add_late())
        run(begin(mine, name))
        for asked in (mine, its):
            with pytest.raises(ProducerFenced):
                run(add(asked, name, who, group, 7))
        assert its.groups.pending_transactions() == set()


def test_events_are_counted_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offsets, "COUNTED_MAX", 2)
    counts, key = EventCounts(), (GroupId("g"), 1)
    before = counts.of(key)
    counts.add(key)
    assert counts.of(key) != before
    for number in range(2, 5):
        counts.add((GroupId("g"), number))
    assert counts.of(key)[0] > 0, "what was counted is forgotten, and that shows"
