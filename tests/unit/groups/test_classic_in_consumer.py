"""A fleet moves from the classic to the consumer protocol, and back, while it reads."""

import pytest

from goqueue.groups import GroupsConfig
from goqueue.groups.embedded import read_assignment
from goqueue.groups.errors import (
    FencedInstance,
    GroupNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMember,
)
from tests.unit.groups.harness import (
    GROUP,
    ClassicClient,
    ConsumerClient,
    Host,
    partitions_of,
    settle,
    topic,
)

ORDERS = topic("orders", 4)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS)


def old_member(host: Host, *, instance_id: str | None = None) -> ClassicClient:
    """A classic member that owns all four partitions."""
    client = ClassicClient(host, instance_id=instance_id)
    client.join()
    client.sync({client: {"orders": [0, 1, 2, 3]}})
    client.owned = {"orders": [0, 1, 2, 3]}
    return client


def test_an_empty_group_takes_the_protocol_of_who_comes_next(host: Host) -> None:
    old = old_member(host)
    host.commit(9, member_id=old.member_id, generation=old.generation)
    old.leave()
    new = ConsumerClient(host)
    new.heartbeat()
    assert host.run(host.machine.describe(GROUP)).group_type == "consumer"
    new.leave()
    old_member(host)
    assert host.run(host.machine.describe(GROUP)).group_type == "classic"
    assert host.read_committed() == 9


def test_a_live_group_is_upgraded_without_losing_an_assignment(host: Host) -> None:
    old = old_member(host)
    new = ConsumerClient(host)
    assert new.heartbeat().assigned == frozenset(), "the old member still holds everything"
    assert host.group().owners.keys() == partitions_of(ORDERS, 0, 1, 2, 3)

    with pytest.raises(RebalanceInProgress):
        old.heartbeat()
    old.join()
    kept = read_assignment(old.sync().assignment)
    assert len(kept["orders"]) == 2  # type: ignore[index]
    old.owned = {"orders": list(kept["orders"])}  # type: ignore[index]
    with pytest.raises(RebalanceInProgress):
        old.heartbeat()
    old.join()  # has revoked
    old.sync()
    old.heartbeat()
    settle(new)
    assert len(new.owned) == 2
    assert host.state() == "Stable"


def test_an_eager_member_gives_everything_up_by_joining(host: Host) -> None:
    old = old_member(host)
    new = ConsumerClient(host)
    new.heartbeat()
    old.owned = {}
    old.join()
    assert len(read_assignment(old.sync().assignment)["orders"]) == 2  # type: ignore[index]
    new.heartbeat()
    assert len(new.owned) == 2
    assert host.state() == "Stable"


def test_when_the_last_new_member_leaves_the_group_is_classic_again(host: Host) -> None:
    old = old_member(host)
    new = ConsumerClient(host)
    new.heartbeat()
    old.owned = {}
    old.join()
    old.sync()
    settle(new)
    new.leave()
    with pytest.raises(RebalanceInProgress):
        old.heartbeat()
    reply = old.join()
    assert reply.leader == old.member_id, "it divides the partitions itself again"
    old.sync({old: {"orders": [0, 1, 2, 3]}})
    assert host.state() == "Stable"


def test_classic_members_may_join_a_group_of_the_new_protocol(host: Host) -> None:
    new = ConsumerClient(host)
    new.heartbeat()
    old = ClassicClient(host)
    assert old.join().leader == ""
    settle(new)
    with pytest.raises(RebalanceInProgress):
        old.heartbeat()
    old.join()
    assert len(read_assignment(old.sync().assignment)["orders"]) == 2  # type: ignore[index]
    old.generation += 1
    with pytest.raises(IllegalGeneration):
        host.commit(1, member_id=old.member_id, generation=old.generation)
    (left,) = old.leave()
    assert left.error is None
    settle(new)
    assert len(new.owned) == 4


def test_a_classic_member_that_never_joins_again_is_put_out(host: Host) -> None:
    old = old_member(host)
    new = ConsumerClient(host)
    new.heartbeat()
    for _ in range(6):
        with pytest.raises(RebalanceInProgress):
            old.heartbeat()
        new.heartbeat()
        host.advance(5_000)
    with pytest.raises(UnknownMember):
        old.heartbeat()
    settle(new)
    assert len(new.owned) == 4


def test_a_static_member_is_upgraded_in_place(host: Host) -> None:
    old = old_member(host, instance_id="cart-1")
    new = ConsumerClient(host, instance_id="cart-1")
    assert new.heartbeat().assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    with pytest.raises(FencedInstance):
        old.heartbeat()


def test_callers_that_wait_are_let_go_when_the_protocol_changes(host: Host) -> None:
    first = old_member(host)
    second = ClassicClient(host)
    second.join()
    ConsumerClient(host).heartbeat()
    assert isinstance(second.reply(), RebalanceInProgress)
    second.join()
    first.join()
    assert host.machine.parked_count == 0


def test_what_a_cooperative_member_holds_while_it_waits_to_join_stays_its_own(host: Host) -> None:
    first = old_member(host)
    ClassicClient(host).join()
    first.join()  # both joined, no assignment yet; the first goes on reading what it has
    assert host.state() == "CompletingRebalance"
    new = ConsumerClient(host)
    assert new.heartbeat().assigned == frozenset()
    assert host.group().current[first.member_id].owned == partitions_of(ORDERS, 0, 1, 2, 3)


def test_what_an_eager_member_gave_up_to_join_is_free_at_once(host: Host) -> None:
    first = old_member(host)
    first.owned = {}
    ClassicClient(host).join()
    first.join()
    assert len(ConsumerClient(host).heartbeat().assigned) == 1


def test_a_target_that_changes_between_join_and_sync_sends_the_member_back(host: Host) -> None:
    ConsumerClient(host).heartbeat()
    old = ClassicClient(host)
    old.join()
    ConsumerClient(host).heartbeat()
    with pytest.raises(RebalanceInProgress):
        old.sync()


def test_a_static_classic_member_restarts_beside_new_ones(host: Host) -> None:
    new = ConsumerClient(host)
    new.heartbeat()
    old = ClassicClient(host, instance_id="cart-1")
    old.join()
    settle(new)
    old.join()
    held = old.sync().assignment
    reborn = ClassicClient(host, instance_id="cart-1")
    reborn.join()
    assert reborn.sync().assignment == held
    assert host.state() == "Stable"


def test_groups_of_other_kinds_are_not_translated(host: Host) -> None:
    connector = ClassicClient(host)
    connector.protocol_type = "connect"
    connector.join()
    with pytest.raises(GroupNotFound):
        ConsumerClient(host).heartbeat()
    connector.leave()
    ConsumerClient(host).heartbeat()
    with pytest.raises(InconsistentGroupProtocol):
        ClassicClient.join(connector)
