"""Members of both protocols in one group, at random: still one owner a partition.

The classic members here are eager: they give up everything before they join, and their leader
divides by position.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from goqueue.groups import (
    GroupsConfig,
    Joined,
    JoinedMember,
    Parked,
    PartitionSet,
    Synced,
    SyncRequest,
)
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.embedded import read_assignment, write_assignment
from goqueue.groups.errors import FencedInstance, FencedMemberEpoch, GroupError, UnknownMember
from goqueue.model.ids import TopicName
from tests.unit.groups.harness import (
    GROUP,
    ClassicClient,
    ConsumerClient,
    Host,
    partitions_of,
    topic,
)

ORDERS = topic("orders", 7)


class EagerClient(ClassicClient):
    """Does the next thing a real one would do."""

    def act(self) -> None:
        try:
            if self._token is None:
                self.heartbeat()
            elif self._token in self.host.woken:
                self.take_reply()
        except UnknownMember:
            self.member_id = ""
            self.start_over()
        except FencedInstance:
            raise
        except GroupError:
            self.start_over()

    def take_reply(self) -> None:
        reply = self.reply()
        self._token = None
        if isinstance(reply, GroupError):
            raise reply
        self.go_on(reply)

    def start_over(self) -> None:
        self.owned = {}
        self._token = None
        try:
            self.go_on(self.join())
        except UnknownMember:
            self.member_id = ""
            self.go_on(self.join())
        except FencedInstance:
            raise
        except GroupError:
            pass  # comes again later

    def go_on(self, reply: Joined | Synced | Parked) -> None:
        match reply:
            case Parked():
                pass
            case Joined(leader=leader, members=members):
                self._token = None
                self.go_on(self.divide(members if leader == self.member_id else ()))
            case Synced(assignment=assignment):
                self._token = None
                partitions = read_assignment(assignment).get(TopicName("orders"), ())
                self.owned = {"orders": list(partitions)}

    def divide(self, members: Sequence[JoinedMember]) -> Any:
        count = len(members)
        given = {
            member.member_id: write_assignment({"orders": list(range(place, 7, count))})
            for place, member in enumerate(members)
        }
        request = SyncRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
            assignments=given,
        )
        return self._take(self.host.run(self.host.machine.sync(self.host.now, request)))

    def partitions_of(self) -> PartitionSet:
        return partitions_of(ORDERS, *self.owned.get("orders", ()))


class MixedWorld(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS)
        self.classic: list[EagerClient] = []
        self.consumer: list[ConsumerClient] = []

    @rule(target=clients, instance_id=st.sampled_from([None, None, "a"]))
    def classic_joins(self, instance_id: str | None) -> EagerClient:
        for other in self.classic[:]:
            if instance_id and other.instance_id == instance_id:
                self.classic.remove(other)  # its process was replaced by this one
        for newer in self.consumer[:]:
            if instance_id and newer.instance_id == instance_id:
                self.consumer.remove(newer)
        client = EagerClient(self.host, instance_id=instance_id)
        self.classic.append(client)
        client.start_over()
        return client

    @rule(target=clients)
    def consumer_joins(self) -> ConsumerClient:
        client = ConsumerClient(self.host)
        self.consumer.append(client)
        client.heartbeat()
        return client

    @rule(client=clients)
    def carry_on(self, client: EagerClient | ConsumerClient) -> None:
        if isinstance(client, EagerClient):
            if client in self.classic:
                self.act(client)
        elif client in self.consumer:
            self.consumer_heartbeat(client)

    def act(self, client: EagerClient) -> None:
        try:
            client.act()
        except FencedInstance:
            self.classic.remove(client)

    def consumer_heartbeat(self, client: ConsumerClient) -> None:
        try:
            client.heartbeat()
        except (UnknownMember, FencedMemberEpoch):
            client.epoch, client.owned = 0, frozenset()
            client.heartbeat()

    @rule(client=consumes(clients), politely=st.booleans())
    def leave(self, client: EagerClient | ConsumerClient, politely: bool) -> None:
        if isinstance(client, EagerClient):
            if client in self.classic:
                self.classic.remove(client)
                if politely:
                    client.leave()
        elif client in self.consumer:
            self.consumer.remove(client)
            if politely and client.member_id in self.known():
                client.leave()

    @rule(milliseconds=st.sampled_from([100, 4_000, 9_000]))
    def wait(self, milliseconds: int) -> None:
        self.host.advance(milliseconds)
        for eager in self.classic:
            if eager.member_id not in self.known():
                eager.owned = {}
        for client in self.consumer:
            if client.member_id not in self.known():
                client.epoch, client.owned = 0, frozenset()

    def known(self) -> dict[str, Any]:
        group: Any = self.host.machine._context.groups.get(GROUP)
        return group.members if group is not None else {}

    @rule()
    def restart_broker(self) -> None:
        self.host.restart()
        for client in self.classic:
            client._token = None

    @rule()
    def settle(self) -> None:
        for _ in range(30):
            for eager in self.classic[:]:
                self.act(eager)
            for client in self.consumer:
                self.consumer_heartbeat(client)
            self.host.advance(3_000)
            self.one_owner()
        if not self.classic and not self.consumer:
            return
        shares = [client.partitions_of() for client in self.classic]
        shares += [client.owned for client in self.consumer]
        assert frozenset().union(*shares) == partitions_of(ORDERS, *range(7))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert self.host.state() == "Stable"

    @invariant()
    def one_owner(self) -> None:
        shares = [
            client.partitions_of() for client in self.classic if client.member_id in self.known()
        ]
        shares += [client.owned for client in self.consumer]
        assert sum(map(len, shares)) == len(frozenset().union(*shares))

    @invariant()
    def the_books_agree(self) -> None:
        group: Any = self.host.machine._context.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            owned = [partition for current in group.current.values() for partition in current.owned]
            assert len(owned) == len(set(owned)) == len(group.owners)
            settled = sum(map(group.is_at_target, group.current.values()))
            assert group.settled_count == settled
            classic = [member for member in group.members.values() if member.classic]
            assert group.classic_count == len(classic)
            assert not group.members or len(classic) < len(group.members)
            assert self.host.machine.parked_count == 0

    def teardown(self) -> None:
        self.host.check_sliced_snapshots()


TestMixedWorld = MixedWorld.TestCase
TestMixedWorld.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
