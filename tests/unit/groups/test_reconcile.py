"""The steps of a member towards its target."""

import pytest

from goqueue.groups import GroupsConfig
from goqueue.groups.consumer import Current
from goqueue.groups.errors import FencedMemberEpoch
from goqueue.groups.reconcile import check_epoch, must_rejoin, next_step
from goqueue.groups.records import MemberState
from tests.unit.groups.harness import ConsumerClient, Host, partitions_of, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


def test_a_partition_is_handed_over_only_when_its_owner_let_go(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    assert second.heartbeat().assigned == frozenset(), "nothing is free yet"
    assert host.state() == "Reconciling"

    told = first.heartbeat()
    assert told.assigned == partitions_of(ORDERS, 0, 1), "told what to keep"
    assert told.member_epoch == 1, "and not further until it did"
    second.heartbeat()
    assert second.owned == frozenset()

    assert first.heartbeat().member_epoch == 2
    assert second.heartbeat().assigned == partitions_of(ORDERS, 2, 3)
    assert host.state() == "Stable"


def test_a_member_that_keeps_its_partitions_is_never_asked_to_stop(host: Host) -> None:
    clients = [ConsumerClient(host) for _ in range(4)]
    for client in clients:
        settle(*clients[: clients.index(client) + 1])
    owned = {client.member_id: client.owned for client in clients}
    clients[0].leave()
    settle(*clients[1:])
    for client in clients[1:]:
        assert owned[client.member_id] <= client.owned


def current(epoch: int, state: MemberState = MemberState.STABLE, *assigned: int) -> Current:
    return Current(epoch, epoch - 1, state, partitions_of(ORDERS, *assigned))


@pytest.mark.parametrize(
    ("epoch", "reported", "passes"),
    [
        (5, None, True),
        (5, (0, 1, 2), True),
        (4, (0,), True),
        (4, (), True),
        (4, (0, 2), False),  # it holds what it was not given
        (4, None, False),
        (3, (0,), False),
        (6, (0,), False),
    ],
)
def test_an_epoch_is_the_members_own_or_that_of_an_answer_that_was_lost(
    epoch: int, reported: tuple[int, ...] | None, passes: bool
) -> None:
    at = current(5, MemberState.STABLE, 0, 1)
    owned = None if reported is None else partitions_of(ORDERS, *reported)
    if passes:
        check_epoch(at, epoch, owned, "ann")
    else:
        with pytest.raises(FencedMemberEpoch, match="its epoch is 5"):
            check_epoch(at, epoch, owned, "ann")


def test_a_member_that_joined_again_is_not_fenced_by_what_it_was() -> None:
    at = Current(0, 5, MemberState.STABLE)
    with pytest.raises(FencedMemberEpoch):
        check_epoch(at, 5, frozenset(), "ann")


def test_a_step_that_changes_nothing_is_the_same_object(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    group = host.group()
    waiting = group.current[second.member_id]
    assert next_step(group, second.member_id, None) is waiting, "nothing is free"
    first.heartbeat()
    group = host.group()
    revoking = group.current[first.member_id]
    assert next_step(group, first.member_id, None) is revoking, "it did not say what it owns"
    assert next_step(group, first.member_id, partitions_of(ORDERS, 0, 1, 2, 3)) is revoking
    after = next_step(group, first.member_id, revoking.assigned)
    assert (after.state, after.epoch, after.revoking) == (MemberState.STABLE, 2, frozenset())


def test_a_member_that_waits_hears_of_a_new_target_though_nothing_is_free(host: Host) -> None:
    first, second, third = (ConsumerClient(host) for _ in range(3))
    first.heartbeat()
    second.heartbeat()
    third.heartbeat()
    group = host.group()
    waiting = group.current[second.member_id]
    assert (waiting.state, waiting.epoch) == (MemberState.WAITING, 2)
    after = next_step(group, second.member_id, None)
    assert (after.state, after.epoch) == (MemberState.WAITING, 3)


def test_members_that_are_behind_or_could_take_more_must_join_again(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    assert not must_rejoin(host.group(), first.member_id)
    second.heartbeat()
    assert must_rejoin(host.group(), first.member_id), "the target is newer"
    assert not must_rejoin(host.group(), second.member_id), "it waits for the other"
    first.heartbeat()
    assert must_rejoin(host.group(), first.member_id), "it has to give some up"
    first.heartbeat()
    assert must_rejoin(host.group(), second.member_id), "some are free by now"
