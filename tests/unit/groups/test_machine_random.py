"""Groups under random members, losses, expiries and topic changes.

Two pretend worlds look at the same group: the coordinator's own books, and what the clients
believe they own.  In both a partition has at most one owner at every moment.
"""

import contextlib
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from goqueue.groups import AssignmentPace, GroupsConfig, TopicFacts
from goqueue.groups.errors import FencedInstance, FencedMemberEpoch, GroupError, UnknownMember
from tests.unit.groups.harness import (
    GROUP,
    ClassicClient,
    ConsumerClient,
    Host,
    partitions_of,
    topic,
)

SESSION = 30_000


class ConsumerWorld(RuleBasedStateMachine):
    """Members of the consumer protocol, all with the same wishes."""

    clients = Bundle("clients")
    pace = AssignmentPace()

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"orders": 3, "payments": 2}
        self.births = {"orders": 1, "payments": 2}
        self.host = Host(
            GroupsConfig(offset_check_interval_ms=10**12), *self.facts(), pace=self.pace
        )
        self.alive: list[ConsumerClient] = []

    def facts(self) -> list[TopicFacts]:
        return [topic(name, n, self.births[name]) for name, n in self.counts.items()]

    # --- members ---

    @rule(target=clients, static=st.booleans())
    def join(self, static: bool) -> ConsumerClient:
        instance_id = f"instance-{len(self.alive)}" if static else None
        held = self.host.machine._context.groups.get(GROUP)
        if instance_id and held and instance_id in held.static:
            instance_id = None
        client = ConsumerClient(self.host, "orders", "payments", instance_id=instance_id)
        self.alive.append(client)
        client.heartbeat()
        return client

    @rule(client=clients, lost=st.booleans(), silent=st.booleans())
    def consumer_heartbeat(self, client: ConsumerClient, lost: bool, silent: bool) -> None:
        self.try_beat(client, lost=lost, silent=silent)

    def try_beat(self, client: ConsumerClient, **how: Any) -> None:
        if client not in self.alive:
            return
        try:
            client.heartbeat(**how)
        except (UnknownMember, FencedMemberEpoch):  # it gives up everything and starts over
            client.epoch, client.owned = 0, frozenset()
            client.heartbeat()
        except FencedInstance:
            self.dead_letter(client)

    def dead_letter(self, client: ConsumerClient) -> None:
        self.alive.remove(client)
        client.owned = frozenset()

    @rule(client=consumes(clients))
    def leave(self, client: ConsumerClient) -> None:
        if client in self.alive:
            self.dead_letter(client)
            with contextlib.suppress(GroupError):
                client.leave()

    @rule(client=consumes(clients))
    def die(self, client: ConsumerClient) -> None:
        """Falls silent; what it believes no longer matters."""
        if client in self.alive:
            self.dead_letter(client)

    @rule(target=clients, client=consumes(clients))
    def restart_static(self, client: ConsumerClient) -> ConsumerClient:
        known = self.host.machine._context.groups.get(GROUP)
        if client not in self.alive or not client.instance_id or not known:
            return client
        if known.static.get(client.instance_id) != client.member_id:
            return client
        owned = client.owned
        client.leave(epoch=-2)
        self.dead_letter(client)
        reborn = ConsumerClient(self.host, "orders", "payments", instance_id=client.instance_id)
        self.alive.append(reborn)
        group = self.host.group()
        settled = group.targets.get(client.member_id, frozenset()) >= owned
        reborn.heartbeat()
        assert not settled or reborn.owned >= owned, "the next process has what the last one had"
        return reborn

    # --- the world ---

    @rule(milliseconds=st.sampled_from([1, 1_000, 8_000, 19_000]))
    def wait(self, milliseconds: int) -> None:
        """Time passes; a living client notices when its session ended before it acts again."""
        self.host.advance(milliseconds)
        known = self.host.machine._context.groups.get(GROUP)
        for client in self.alive:
            if client.epoch and (known is None or client.member_id not in known.members):
                client.epoch, client.owned = 0, frozenset()

    @rule(name=st.sampled_from(["orders", "payments"]), more=st.integers(1, 4))
    def grow_topic(self, name: str, more: int) -> None:
        self.counts[name] = min(self.counts.get(name, 0) + more, 12)
        self.host.change_topics(*self.facts())

    @rule(name=st.sampled_from(["orders", "payments"]))
    def delete_topic(self, name: str) -> None:
        self.counts.pop(name, None)
        self.births[name] += 2  # its namesake is another topic
        self.host.change_topics(*self.facts())

    @rule()
    def restart_broker(self) -> None:
        self.host.restart()

    @rule()
    def settle(self) -> None:
        """The dead expire, the living reconcile: then all is owned, evenly."""
        for _ in range(8):
            for client in list(self.alive):
                self.try_beat(client)
            self.host.advance(SESSION // 4)
        if not self.alive:
            return
        for client in list(self.alive):
            self.try_beat(client)
        group = self.host.group()
        assert group.is_settled
        partitions = set().union(
            *(partitions_of(f, *range(f.partition_count)) for f in self.facts())
        )
        assert group.owners.keys() == partitions
        sizes = [len(client.owned) for client in self.alive]
        assert sum(sizes) == len(partitions)
        assert max(sizes) - min(sizes) <= 1
        before = len(self.host.log)
        for client in self.alive:
            self.try_beat(client)
        assert len(self.host.log) == before, "a settled group writes nothing"

    # --- what always holds ---

    @invariant()
    def one_owner_in_the_clients_eyes(self) -> None:
        owned = [partition for client in self.alive for partition in client.owned]
        assert len(owned) == len(set(owned))

    @invariant()
    def the_books_agree(self) -> None:
        group = self.host.machine._context.groups.get(GROUP)
        if group is None:
            return
        group = self.host.group()
        owned = [partition for current in group.current.values() for partition in current.owned]
        assert len(owned) == len(set(owned)) == len(group.owners)
        targets = [partition for target in group.targets.values() for partition in target]
        assert len(targets) == len(set(targets))
        settled = sum(map(group.is_at_target, group.current.values()))
        assert group.settled_count == settled

    @invariant()
    def a_living_clients_partitions_are_in_the_books(self) -> None:
        known = self.host.machine._context.groups.get(GROUP)
        for client in self.alive:
            if known is not None and client.member_id in known.members:
                assert client.owned <= self.host.group().current[client.member_id].owned

    def teardown(self) -> None:
        self.host.check_sliced_snapshots()


class LargeGroupWorld(ConsumerWorld):
    """The same, where targets are put off."""

    pace = AssignmentPace(large_group_members=2)


class ClassicWorld(RuleBasedStateMachine):
    """Classic members that come, sync, hang and go; the group always finds its way to Stable."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.alive: list[ClassicClient] = []

    @rule(target=clients, static=st.sampled_from([None, None, "a", "b"]))
    def join(self, static: str | None) -> ClassicClient:
        for other in [other for other in self.alive if static and other.instance_id == static]:
            self.alive.remove(other)  # a newer process of the same instance fences it
        client = ClassicClient(self.host, instance_id=static)
        self.alive.append(client)
        client.join()
        return client

    @rule(client=clients)
    def carry_on(self, client: ClassicClient) -> None:
        if client in self.alive:
            self.act(client)

    def act(self, client: ClassicClient) -> None:
        """What a client does next: read its answer, sync, heartbeat, or join again."""
        try:
            if client._token is not None:
                if client._token not in self.host.woken:
                    return
                reply = client.reply()
                client._token = None
                if isinstance(reply, GroupError):
                    raise reply
                if not hasattr(reply, "generation"):
                    return
                client.sync({other: {} for other in self.alive})
            else:
                client.heartbeat()
        except FencedInstance:
            self.alive.remove(client)
        except UnknownMember:
            client.member_id = ""
            client.join()
        except GroupError:
            self.rejoin(client)

    def rejoin(self, client: ClassicClient) -> None:
        try:
            client.join()
        except UnknownMember:
            client.member_id = ""
            client.join()

    @rule(client=consumes(clients), politely=st.booleans())
    def leave(self, client: ClassicClient, politely: bool) -> None:
        if client in self.alive:
            self.alive.remove(client)
            if politely:
                client.leave()
            elif client._token is not None:
                client.abandon()

    @rule(milliseconds=st.sampled_from([100, 3_000, 9_000, 31_000]))
    def wait(self, milliseconds: int) -> None:
        self.host.advance(milliseconds)

    @rule()
    def restart_broker(self) -> None:
        self.host.restart()
        for client in self.alive:
            client._token = None

    @rule()
    def settle(self) -> None:
        for _ in range(30):
            for client in list(self.alive):
                self.act(client)
            self.host.advance(3_000)
        if not self.alive:
            return
        assert self.host.state() == "Stable"
        described = self.host.run(self.host.machine.describe(GROUP))
        assert {m.member_id for m in described.members} == {c.member_id for c in self.alive}

    @invariant()
    def the_books_agree(self) -> None:
        group: Any = self.host.machine._context.groups.get(GROUP)
        if group is None:
            return
        waiters = self.host.machine._context.parked_requests.waiters(GROUP)
        assert waiters.joining.keys() <= group.members.keys()
        assert waiters.syncing.keys() <= group.members.keys()
        assert (group.state == "Empty") == (not group.members)
        assert group.leader == "" or group.leader in group.members
        assert set(group.static.values()) <= group.members.keys()

    def teardown(self) -> None:
        self.host.check_sliced_snapshots()


LONG = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestConsumerWorld = ConsumerWorld.TestCase
TestConsumerWorld.settings = LONG
TestLargeGroupWorld = LargeGroupWorld.TestCase
TestLargeGroupWorld.settings = LONG
TestClassicWorld = ClassicWorld.TestCase
TestClassicWorld.settings = LONG
