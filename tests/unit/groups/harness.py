"""A pretend host: it writes each decision's records, applies them, and hands out wake-ups.

After every decision it checks what must always hold: a replay of the log, and a machine made from
a snapshot, are equal to the live one.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from goqueue.groups import (
    UNSET,
    AssignmentPace,
    CommitRequest,
    FetchRequest,
    GroupDecision,
    GroupMachine,
    GroupsConfig,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    MemberIdentity,
    OffsetToCommit,
    Parked,
    PartitionSet,
    Protocol,
    ShareHeartbeatRequest,
    ShareHeartbeatResponse,
    SyncRequest,
    TopicFacts,
    Topics,
)
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.embedded import write_assignment
from goqueue.groups.errors import GroupError, MemberIdRequired
from goqueue.model.errors import DiskFull
from goqueue.model.ids import (
    GroupId,
    Offset,
    Timestamp,
    TopicId,
    TopicIdPartition,
    TopicName,
    TopicPartition,
)
from goqueue.model.markers import Marker
from tests.unit.model.snapshot_checks import check_sliced_snapshot

ReplyT = TypeVar("ReplyT")
GROUP = GroupId("orders-readers")
CONFIG = GroupsConfig()
SUBSCRIBED = (TopicName("orders"),)  # of share consumers that do not say otherwise
DELAY = CONFIG.initial_rebalance_delay_ms


def topic(name: str, partitions: int, number: int | None = None) -> TopicFacts:
    identity = number if number is not None else int.from_bytes(name.encode())
    return TopicFacts(TopicId(UUID(int=identity)), TopicName(name), partitions)


def partitions_of(facts: TopicFacts, *partitions: int) -> PartitionSet:
    return frozenset(TopicIdPartition(facts.topic_id, partition) for partition in partitions)


class Host:
    def __init__(
        self,
        config: GroupsConfig = CONFIG,
        *topics: TopicFacts,
        pace: AssignmentPace | None = None,
    ) -> None:
        self.config = config
        self.pace = pace
        self.view = Topics(topics)
        self.settings: dict[GroupId, GroupSettings] = {}
        self.share_settings: dict[GroupId, GroupSettings] = {}
        self.machine = self.new_machine()
        self.now = Timestamp(1_000_000)
        self.log: list[bytes] = []
        self.woken: dict[int, Any] = {}
        self._ids = 0
        self.disk_is_full = False

    def new_machine(self) -> GroupMachine:
        return GroupMachine(
            self.config, self.view, self.pace, self._settings_of, self._share_settings_of
        )

    def _settings_of(self, group_id: GroupId) -> GroupSettings:
        return self.settings.get(group_id, UNSET)

    def _share_settings_of(self, group_id: GroupId) -> GroupSettings:
        return self.share_settings.get(group_id, UNSET)

    def run(self, decision: GroupDecision[ReplyT]) -> ReplyT:
        if self.disk_is_full and decision.records:
            raise DiskFull("nothing was written")
        for record in decision.records:
            self.log.append(self.machine.encode(record))
            assert self.machine.decode(self.log[-1]) == record
            self.machine.apply(record)
        for wakeup in decision.reply.wakeups:
            assert wakeup.token not in self.woken, "woken once"
            self.woken[wakeup.token] = wakeup.reply
        if decision.records:
            self.check_replay()
        return decision.reply.reply

    def check_replay(self) -> None:
        live = list(self.machine.snapshot())
        assert list(self.replay().snapshot()) == live
        copy = self.new_machine()
        for record in live:
            copy.apply(record)
        assert list(copy.snapshot()) == live

    def check_sliced_snapshots(self) -> None:
        """As `check_replay`, for snapshots that are read while records are applied."""
        for eighths in range(0, 8, 3):
            check_sliced_snapshot(
                self.new_machine,
                self.log,
                lambda machine: list(machine.snapshot()),
                begins_at=len(self.log) * eighths // 8,
                steps=(1, 0, 2, 0),
            )

    def replay(self) -> GroupMachine:
        machine = self.new_machine()
        for data in self.log:
            machine.apply(machine.decode(data))
        return machine

    def restart(self) -> None:
        """The broker dies and comes back: the log is all that is left."""
        self.machine = self.replay()
        self.woken.clear()

    def advance(self, milliseconds: int) -> None:
        """Let time pass; deadlines on the way are kept."""
        end = self.now + milliseconds
        while (due := self.machine.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.run(self.machine.on_deadline(self.now))
        self.now = Timestamp(end)

    def change_topics(self, *topics: TopicFacts) -> None:
        self.view = Topics(topics)
        self.run(self.machine.topics_changed(self.now, self.view))

    def new_id(self) -> str:
        self._ids += 1
        return f"member-{self._ids:03}"

    def group(self) -> ConsumerGroup:
        group = self.machine._context.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def state(self) -> str:
        return self.run(self.machine.describe(GROUP)).state

    def commit(self, offset: int, topic: str = "orders", partition: int = 0, **who: Any) -> Any:
        wanted = OffsetToCommit(TopicName(topic), partition, Offset(offset))
        request = CommitRequest(group_id=GROUP, offsets=(wanted,), **who)
        return self.run(self.machine.commit(self.now, request))

    def end(
        self,
        producer_id: int,
        epoch: int,
        *,
        commits: bool = True,
        is_bumped: bool = False,
        coordinator_epoch: int = 0,
    ) -> Any:
        """The marker of a transaction's end."""
        marker = Marker(producer_id, epoch, coordinator_epoch, commits=commits, is_bumped=is_bumped)
        return self.run(self.machine.end_transaction(self.now, GROUP, marker))

    def read_committed(self, topic: str = "orders", partition: int = 0) -> int | None:
        request = FetchRequest(
            group_id=GROUP, partitions=(TopicPartition(TopicName(topic), partition),)
        )
        (fetched,) = self.run(self.machine.fetch([request]))
        found = fetched.offsets[TopicPartition(TopicName(topic), partition)]
        return None if found is None else found.offset


class ClassicClient:
    """A consumer of the classic protocol, as far as the coordinator sees it."""

    def __init__(self, host: Host, *topics: str, instance_id: str | None = None) -> None:
        self.host = host
        self.topics = topics or ("orders",)
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}
        self.protocols: tuple[str, ...] = ("range",)
        self.protocol_type = "consumer"
        self.skips_assignment = True
        self.session_timeout_ms = 10_000
        self._token: int | None = None

    def request(self) -> JoinRequest:
        metadata = write_subscription(self.topics, self.owned)
        return JoinRequest(
            group_id=GROUP,
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id="test",
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=30_000,
            protocol_type=self.protocol_type,
            protocols=tuple(Protocol(name, metadata) for name in self.protocols),
            skips_assignment=self.skips_assignment,
        )

    def join(self) -> Any:
        """Join; as a real client does, come again at once with the id that is given."""
        try:
            return self._join()
        except MemberIdRequired as error:
            self.member_id = error.member_id
            return self._join()

    def _join(self) -> Any:
        machine = self.host.machine
        decision = machine.join(self.host.now, self.request(), self.host.new_id())
        return self._take(self.host.run(decision))

    def sync(self, assignments: dict["ClassicClient", dict[str, list[int]]] | None = None) -> Any:
        given = assignments or {}
        request = SyncRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
            assignments={client.member_id: write_assignment(p) for client, p in given.items()},
        )
        return self._take(self.host.run(self.host.machine.sync(self.host.now, request)))

    def _take(self, reply: Any) -> Any:
        if isinstance(reply, Parked):
            self._token = reply.token
            return self.reply() if reply.token in self.host.woken else reply
        return self._learn(reply)

    def reply(self) -> Any:
        """What the parked call was answered, or None while it waits."""
        assert self._token is not None
        return self._learn(self.host.woken.get(self._token))

    def _learn(self, reply: Any) -> Any:
        if hasattr(reply, "generation"):
            self.generation = reply.generation
            self.member_id = reply.member_id
        return reply

    def abandon(self) -> None:
        assert self._token is not None
        self.host.machine.abandon(self.host.now, self._token)  # type: ignore[arg-type]

    def heartbeat(self) -> None:
        self.host.run(
            self.host.machine.heartbeat(
                self.host.now,
                GROUP,
                self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
            )
        )

    def leave(self) -> Any:
        leavers = [MemberIdentity(self.member_id, self.instance_id)]
        return self.host.run(self.host.machine.leave(self.host.now, GROUP, leavers))


class ConsumerClient:
    """A consumer of the KIP-848 protocol that does at once what it is told."""

    def __init__(self, host: Host, *topics: str, instance_id: str | None = None) -> None:
        self.host = host
        self.topics: tuple[str, ...] | None = topics or ("orders",)
        self.regex: str | None = None
        self.assignor: str | None = None
        self.instance_id = instance_id
        self.member_id = host.new_id()
        self.epoch = 0
        self.owned: PartitionSet = frozenset()
        self.clings = False  # does not give up what it is told to

    def heartbeat(self, *, lost: bool = False, silent: bool = False) -> Any:
        """One heartbeat; `lost`: its answer never arrives; `silent`: it reports nothing."""
        joining = self.epoch == 0
        names = tuple(map(TopicName, self.topics)) if self.topics is not None else None
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=20_000,
            subscribed_names=names,
            subscribed_regex=self.regex,
            assignor=self.assignor,
            owned=None if silent or joining else self.owned,
        )
        reply = self.host.run(self.host.machine.consumer_heartbeat(self.host.now, request))
        if not lost:
            self.epoch = reply.member_epoch
            if reply.assigned is not None:
                kept = self.owned if self.clings else frozenset()
                self.owned = reply.assigned | kept
        return reply

    def leave(self, epoch: int = -1) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )
        self.host.run(self.host.machine.consumer_heartbeat(self.host.now, request))
        self.epoch, self.owned = 0, frozenset()


def settle(*clients: ConsumerClient, rounds: int = 10) -> None:
    for _ in range(rounds):
        for client in clients:
            client.heartbeat()


def expect_refusal(error: type[GroupError], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} expected")


def stable_pair(host: Host) -> tuple[ClassicClient, ClassicClient]:
    """Two members, settled: `first` leads and has partition 0, `second` has 1."""
    first, second = ClassicClient(host), ClassicClient(host)
    first.join()
    second.join()
    host.advance(2 * DELAY)
    first.reply()
    second.reply()
    second.sync()
    first.sync({first: {"orders": [0]}, second: {"orders": [1]}})
    assert host.state() == "Stable"
    return first, second


def share_heartbeat(
    host: Host,
    member: str,
    epoch: int = 0,
    names: tuple[TopicName, ...] | None = None,
    session_ms: int | None = None,
) -> ShareHeartbeatResponse:
    request = ShareHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=epoch,
        subscribed_names=SUBSCRIBED if epoch == 0 and names is None else names,
        session_timeout_ms=session_ms,
    )
    return host.run(host.machine.share_heartbeat(host.now, request))


def share_members(host: Host) -> list[str]:
    group = host.machine.share_groups().get(GROUP)
    return [] if group is None else list(group.members)


def write_subscription(topics: Sequence[str], owned: Mapping[str, Sequence[int]]) -> bytes:
    """What a classic consumer puts into JoinGroup, version 1: topics, no user data, partitions."""
    names = b"".join(map(_write_string, sorted(topics)))
    parts = [
        _write_string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *sorted(numbers))
        for topic, numbers in sorted(owned.items())
    ]
    head, no_user_data = struct.pack(">hi", 1, len(topics)), struct.pack(">i", -1)
    return head + names + no_user_data + struct.pack(">i", len(parts)) + b"".join(parts)


def _write_string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
