"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol."""

import pytest

from goqueue.groups import MemberIdentity
from goqueue.groups.errors import IllegalGeneration, UnknownMember
from tests.unit.groups.harness import DELAY, GROUP, ClassicClient, Host, stable_pair


@pytest.fixture
def host() -> Host:
    return Host()


def test_zombies_are_fenced_by_their_generation(host: Host) -> None:
    first, second = stable_pair(host)
    second.leave()
    first.join()
    first.sync({first: {"orders": [0, 1]}})
    first.generation -= 1
    with pytest.raises(IllegalGeneration):
        first.heartbeat()
    with pytest.raises(IllegalGeneration):
        host.commit(7, member_id=first.member_id, generation=first.generation)
    with pytest.raises(UnknownMember):
        host.commit(7, member_id=second.member_id, generation=second.generation)
    with pytest.raises(UnknownMember):
        host.commit(7)
    assert host.read_committed() is None


def test_leaving_frees_the_place_at_once_and_the_last_one_leaves_an_empty_group(
    host: Host,
) -> None:
    first, second = stable_pair(host)
    (left,) = second.leave()
    assert left.error is None
    (again,) = second.leave()
    assert isinstance(again.error, UnknownMember)
    first.leave()
    assert host.state() == "Empty"


def test_an_administrator_removes_static_members_by_instance(host: Host) -> None:
    member = ClassicClient(host, instance_id="cart-1")
    member.join()
    host.advance(DELAY)
    leavers = [MemberIdentity(instance_id="cart-1"), MemberIdentity(instance_id="cart-9")]
    gone, unknown = host.run(host.machine.leave(host.now, GROUP, leavers))
    assert gone.error is None
    assert isinstance(unknown.error, UnknownMember)
