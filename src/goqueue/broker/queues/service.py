"""Queues: their life, their groups, and what callers may ask of them.

    receive.py      receive ── choose ── decide ── durable ──> messages with receipts
    settlement.py   ack, nack, reject, extend, release ── decide ── durable ──> outcomes

Each partition has a ledger, a state machine on a log beside the partition's data (ADR 18); the
internal topic `__ledgers` says only which groups there are.  Everything that is answered is on
disk, except for deliveries of groups with `delivery_durability=async`: those survive the end of the
process, not a power cut.  Nothing here needs a member of a consumer group: a consumer is a name.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from goqueue.broker.barrier import Barrier
from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.broker.dlq.browse import DeadLetters
from goqueue.broker.dlq.move_target import MovesHere
from goqueue.broker.dlq.partition_dead_letters import PartitionDeadLetters
from goqueue.broker.dlq.redrive import Redriver
from goqueue.broker.dlq.redrive_jobs import Redrives
from goqueue.broker.dlq.target import DeadLettersHere
from goqueue.broker.dlq.writer import DeadLetterWriter, UnwrittenDeadLetters
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.queues import stats
from goqueue.broker.queues.acknowledgement import Extend, Release
from goqueue.broker.queues.dispatchers import Dispatchers
from goqueue.broker.queues.elsewhere import QueuesElsewhere, RemoveConsumer
from goqueue.broker.queues.group_link import GroupLink
from goqueue.broker.queues.ledger_split import split_ledgers
from goqueue.broker.queues.ledgers import Ledger, Ledgers, shorten_log, submit_all
from goqueue.broker.queues.offset_sync import OffsetSync
from goqueue.broker.queues.overview import Missing, QueueOverview
from goqueue.broker.queues.receive import Receiver
from goqueue.broker.queues.receive_elsewhere import ReceiverElsewhere, ReceiverHere
from goqueue.broker.queues.settle_elsewhere import SettlementElsewhere, SettlementHere
from goqueue.broker.queues.settlement import Settlement
from goqueue.broker.queues.state import QueueState
from goqueue.broker.queues.stats import WhichInFlight
from goqueue.broker.queues.subscriptions import Subscriptions
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.bundle import LEDGER, Bundle
from goqueue.cluster import Topic
from goqueue.groups import GroupSettings
from goqueue.model.errors import GoQueueError, OffsetOutOfRange
from goqueue.model.ids import GroupId, Offset, TopicId, TopicName
from goqueue.model.names import check_length
from goqueue.queue import (
    Due,
    GroupStats,
    GroupTable,
    InFlight,
    PartitionState,
    QueueGroup,
    QueueRegistry,
    QueueSettings,
    SettleOutcome,
    Where,
)

FINISH_SECONDS: Final = 2.0  # for the last floors of a broker that stops

_log = structlog.get_logger("goqueue.queues")


class Queues:
    """The verbs of queues.  Refusals are raised as `QueueError`, or are an item's outcome."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._configs = services.group_configs
        self._state = QueueState(services, self.on_deadline)
        self.dispatchers = Dispatchers(self._clock, self._state)
        self._dead_letter_writer = DeadLetterWriter(services, self._state)
        self._coordinator = GroupLink(services)
        self._offset_sync = OffsetSync(services, self._state, self._coordinator)
        self._subscriptions = Subscriptions(services, self._state, self._offset_sync)
        self.settlement = Settlement(
            self._clock, self._state, self.dispatchers, self._dead_letter_writer
        )
        self.receiver = Receiver(
            services,
            self._state,
            self.dispatchers,
            self._subscriptions,
            self.settlement,
            self._dead_letter_writer,
            self._coordinator,
        )
        self._elsewhere: QueuesElsewhere | None = None
        self._overview: QueueOverview | None = None
        if services.others is not None:
            self._join_cluster(services, services.others)
        self._redriver = Redriver(services, self._state)
        dead_letters_here = PartitionDeadLetters(services, self._state, self._redriver)
        self.dead_letters = DeadLetters(services, dead_letters_here)
        self.redrives = Redrives(self._clock, self.dead_letters, services.others)
        if services.others is not None:
            MovesHere(services).serve(services.others)
            dead_letters_here.serve(services.others)
        self._stopping = False

    def _join_cluster(self, services: BrokerServices, others: OtherNodes) -> None:
        """Ask the other nodes for what they lead, and do the same for them."""
        elsewhere = ReceiverElsewhere(services, others, self.receiver)
        self.receiver.elsewhere = elsewhere
        self.settlement.elsewhere = SettlementElsewhere(services, others, self.settlement)
        self._elsewhere = QueuesElsewhere(others, self, elsewhere)
        self._coordinator.serve(others)
        ReceiverHere(self.receiver).serve(others)
        SettlementHere(self.settlement).serve(others)
        DeadLettersHere(services, self._clock).serve(others)
        self._elsewhere.serve()
        self._overview = QueueOverview(services, others, self)
        self._overview.serve()

    # --- life -------------------------------------------------------------------------------------

    def new_registry(self) -> QueueRegistry:
        return QueueRegistry(self._state.table)

    async def attach(self, registry: MachineHost[QueueRegistry]) -> None:
        """Open the ledgers, after those of a log of before are split off."""
        self._state.attach(registry)
        topics = self._services.topics()
        disk = self._services.environment.disk
        await split_ledgers(disk, self._services.partitions, registry, topics)
        known = set(self.groups)
        await self._state.ledgers.open_all(topics)
        self._take_in(self.groups.keys() - known)
        for group in self.groups.values():
            group.topic_totals.clear()  # counters restart with the process
        ledgers = list(self._state.ledgers)
        self._resume(ledgers)
        self._redriver.inherit(ledgers)

    def _take_in(self, group_ids: Collection[GroupId]) -> None:
        """Groups that only ledgers know, after a crash; those that they forgot are none."""
        for group_id in group_ids:
            if self.groups[group_id].states:
                self._state.registry.defer(lambda each, group_id=group_id: each.begin(group_id))  # type: ignore[misc]
            else:
                del self.groups[group_id]

    def _resume(self, ledgers: Iterable[Ledger]) -> None:
        now, skips_leases = self._clock.steady(), self._configs.has_async_deliveries()
        for ledger in ledgers:
            ledger.write_or_defer(lambda each: each.resume(now, skips_leases=skips_leases))

    @property
    def groups(self) -> dict[GroupId, QueueGroup]:
        """Those that have begun in a topic, by name."""
        return self._state.groups

    @property
    def table(self) -> GroupTable:
        return self._state.table

    @property
    def ledgers(self) -> Ledgers:
        return self._state.ledgers

    def state(self, where: Where) -> PartitionState | None:
        return self._state.state(where)

    @property
    def hosts(self) -> Sequence[MachineHost[Any]]:
        """Of the ledgers, and of the groups."""
        return (self._state.registry, *self._state.ledgers)

    async def wait_settled(self) -> None:
        """Return when everything that was decided of queues so far is committed."""
        await self._state.wait_settled()

    @property
    def barrier(self) -> Barrier:
        """Of verbs that look at queues in several steps."""
        return Barrier(self)

    @property
    def registry(self) -> MachineHost[QueueRegistry]:
        return self._state.registry

    async def run(self) -> None:
        """Background loops: DLQ writer, redrive, offset sync, cache eviction."""
        async with asyncio.TaskGroup() as tasks:
            self.redrives.attach(tasks)
            if self._elsewhere is not None:
                self._elsewhere.attach(tasks)
            tasks.create_task(self._state.registry.run())
            tasks.create_task(self._state.ledgers.run())
            tasks.create_task(self._dead_letter_writer.run())
            tasks.create_task(self._redriver.run())
            tasks.create_task(self._offset_sync.run())
            tasks.create_task(self._subscriptions.run(self.dispatchers))

    def retry_dead_letters(self) -> None:
        """A topic was changed: what could not be written may fit now."""
        self._dead_letter_writer.retry()

    def unwritten_dead_letters(self) -> list[UnwrittenDeadLetters]:
        """Dead messages that cannot be written to the dead letters, and why."""
        return self._dead_letter_writer.unwritten()

    def on_deadline(self, due: Due, _: Committed) -> None:
        """The host tells of messages that became ready, or that died."""
        for group_id in due.groups:
            self.dispatchers.notify_one(group_id)
        if due.has_dead:
            self._dead_letter_writer.wake()

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopping = True
        self._redriver.stop()
        self.receiver.stop()

    async def finish(self) -> None:
        """Before the logs are closed: let the committed offsets say what the floors say.

        In a cluster the replicas that a commit needs may be gone, and cannot reach a node that
        stops.  The next leader commits the floors, then.
        """
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self._offset_sync.commit_ack_floors()
        except TimeoutError:
            _log.warning("floors not committed: other replicas do not answer")

    async def log_recovered(
        self, topic: TopicName, index: int, topic_id: TopicId, end: Offset
    ) -> None:
        """A partition was opened: forget what groups did behind its end, which it has lost."""
        ledger = self._state.ledgers.find(topic, index)
        if ledger is None:
            return
        floors = await shorten_log(ledger, topic_id, end)
        for where, floor in floors:
            _log.warning(
                "queue group drawn back: the log lost its end, what is written there now is new",
                group=where.group_id,
                topic=topic,
                partition=index,
                floor=floor,
                log_end=end,
            )

    async def partition_led(self, topic: Topic, bundle: Bundle) -> None:
        """This node leads a partition from now on: its ledger goes on here."""
        if bundle.find(LEDGER) is None:
            return
        known = set(self.groups)
        ledger = await self._state.ledger(topic, bundle.index)
        self._take_in(self.groups.keys() - known)
        self._resume([ledger])
        self._redriver.inherit([ledger])
        self._dead_letter_writer.wake_if_due()
        self.dispatchers.notify_all(ledger.ahead.states)

    def partition_resigned(self, bundle: Bundle) -> None:
        """Another node leads a partition, and has its ledger: whoever waits here looks again."""
        self.dispatchers.notify_all(self._state.ledgers.drop(bundle.topic, bundle.index))

    def topic_deleted(self, name: str) -> None:
        """Its ledgers go with it."""
        self._state.ledgers.drop(name)
        for group in self.groups.values():
            group.topic_totals.pop(TopicName(name), None)
        self._subscriptions.forget(name)

    # --- groups -----------------------------------------------------------------------------------

    async def configure(self, group: str, settings: QueueSettings) -> QueueSettings:
        """Set how the group consumes its topics, from now on; it need not exist."""
        group_id = _group_id(group)
        self.check(settings)
        await self._configs.set_queue_settings(group_id, settings)
        self.dispatchers.notify_one(group_id)
        return settings

    def check(self, settings: QueueSettings) -> None:
        """Raise `InvalidSetting` if the settings are not right for this server."""
        settings.check()
        session_ms, beat_ms = settings.session_timeout_ms, settings.heartbeat_interval_ms
        GroupSettings(session_ms or None, beat_ms or None).check(self._services.config.groups)

    def settings(self, group: str) -> QueueSettings:
        """Of a group that does not exist yet: the defaults."""
        return self._configs.queue_settings(GroupId(group))

    async def begin(self, group: str, topics: Sequence[str], settings: QueueSettings) -> None:
        """Let the group begin in the topics, with these settings if it is new and none are set."""
        group_id = _group_id(group)
        if settings != QueueSettings() and not self.is_known(group_id):
            await self.configure(group, settings)
        await self.receiver.begin_everywhere(group_id, topics)

    async def forget(self, group: str) -> None:
        """Delete the group's states and settings; what was in flight is void."""
        group_id = _group_id(group)
        await self.forget_here(group_id)
        if self._elsewhere is not None:
            await self._elsewhere.forget(group_id)
        await self._configs.unset_queue_settings(group_id)

    async def forget_here(self, group_id: GroupId) -> None:
        """The states in the ledgers of this node."""
        if group_id in self.groups:
            await self._forget_states(group_id)
            self.dispatchers.forget(group_id)

    async def _forget_states(self, group_id: GroupId) -> None:
        """In one step, so that no group starts over meanwhile; a crash may leave some of it."""
        states = [
            ledger.submit_now(lambda machine: machine.forget_group(group_id))
            for ledger in self._state.ledgers_of(group_id)
        ]
        group = self._state.registry.submit_now(lambda each: each.forget_group(group_id))
        for _, committed in (*states, group):
            if committed is not None:
                await committed

    async def forget_partitions(self, group: str, topic: str) -> list[int]:
        """Let the group start over in a topic; gives the partitions it had begun in."""
        group_id = _group_id(group)
        if self._overview is not None:
            return await self._overview.forget_partitions(group_id, TopicName(topic))
        return await self.forget_partitions_here(self._state.group(group_id).group_id, topic)

    async def forget_partitions_here(self, group_id: GroupId, topic: str) -> list[int]:
        """As `forget_partitions`, of what this node leads."""
        ledgers = self._state.ledgers_of(group_id, topic)
        found = sorted(ledger.ahead.partition for ledger in ledgers)
        await submit_all(ledgers, lambda machine: machine.forget_group(group_id))
        return found

    async def move_ack_floor(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Finish everything below `offset`; backwards: everything from there on is redelivered."""
        group_id = _group_id(group)
        if self._overview is not None:
            await self._overview.move_ack_floor(group_id, TopicName(topic), partition, offset)
        else:
            await self.move_ack_floor_here(group_id, topic, partition, offset)

    async def move_ack_floor_here(
        self, group_id: GroupId, topic: str, partition: int, offset: int
    ) -> None:
        """As `move_ack_floor`, in a partition that this node leads."""
        self._services.partitions.bundle(self._services.topic(topic), partition).check_leader()
        sources = await self._subscriptions.find([topic], group_id)
        found = {source[0].where.partition: source for source in sources}
        log = found[partition][1].partition.log
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is outside {log.start_offset} to {log.end_offset}"
            )
        ledger = found[partition][2]
        assert ledger is not None, "the group has begun there"
        await ledger.submit(lambda machine: machine.move_ack_floor(group_id, Offset(offset)))
        self.dispatchers.notify_one(group_id)

    # --- messages ---------------------------------------------------------------------------------

    async def extend(self, receipts: Sequence[str], *, visibility_ms: int) -> list[SettleOutcome]:
        """The consumer has `visibility_ms` from now on.  For outcomes see `Settlement.settle`."""
        return await self.settlement.settle(receipts, Extend(visibility_ms))

    async def release(self, receipts: Sequence[str], *, delay_ms: int = 0) -> list[SettleOutcome]:
        """Give the messages back untouched: no failure is counted."""
        return await self.settlement.settle(receipts, Release(delay_ms))

    # --- consumers that are gone ------------------------------------------------------------------

    async def remove_consumer(
        self, group: str, consumer: str, *, failed: bool, deliveries_max: int | None = None
    ) -> int:
        """Take back what the consumer holds; `failed` unless it left politely.  Gives how many.

        Messages that were delivered `deliveries_max` times die; None: the group's setting.
        """
        group_id, count = _group_id(group), 0
        if self._elsewhere is not None:
            count = await self._elsewhere.remove_consumer(
                RemoveConsumer(group_id, consumer, failed, deliveries_max)
            )
            if group_id not in self.groups:
                return count
        return count + await self.remove_consumer_here(
            group_id, consumer, failed=failed, deliveries_max=deliveries_max
        )

    async def remove_consumer_here(
        self, group_id: GroupId, consumer: str, *, failed: bool, deliveries_max: int | None
    ) -> int:
        """As `remove_consumer`, in the ledgers of this node."""
        self.dispatchers.forget_consumer(group_id, consumer)
        limit = deliveries_max
        decided = self._release_leases(group_id, consumer, failed=failed, deliveries_max=limit)
        for _, committed in decided:
            if committed is not None:
                await committed
        self.dispatchers.notify_one(group_id)
        self._dead_letter_writer.wake_if_due()
        return sum(count for count, _ in decided)

    def _release_leases(
        self, group_id: GroupId, consumer: str, *, failed: bool, deliveries_max: int | None
    ) -> list[tuple[int, Committed]]:
        now = self._clock.steady()
        return [
            ledger.submit_now(
                lambda machine: machine.release_consumer(
                    now, group_id, consumer, failed=failed, deliveries_max=deliveries_max
                )
            )
            for ledger in self._state.ledgers_of(self._state.group(group_id).group_id)
            if any(each.consumer == consumer for each in ledger.ahead.states[group_id].leases)
        ]

    def release_consumer(
        self,
        group_id: GroupId,
        consumer: str,
        *,
        failed: bool,
        deliveries_max: int | None = None,
    ) -> None:
        """The consumer was lost: take back what it holds, without waiting for that."""
        if self._stopping:
            return
        if self._elsewhere is not None:
            self._elsewhere.release_consumer(
                RemoveConsumer(group_id, consumer, failed, deliveries_max)
            )
        if group_id not in self.groups:
            return
        self.dispatchers.forget_consumer(group_id, consumer)
        try:
            self._release_leases(group_id, consumer, failed=failed, deliveries_max=deliveries_max)
        except GoQueueError as error:  # their time will run out
            _log.warning("messages of a lost consumer not released", problem=str(error))
        self.dispatchers.notify_one(group_id)
        self._dead_letter_writer.wake_if_due()

    # --- transactions -----------------------------------------------------------------------------

    @property
    def reservations(self) -> Mapping[str, Mapping[PartitionState, None]]:
        """Transactional ids to where they have, or had until lately, messages reserved."""
        return self._state.table.reservations

    def ledgers_with_reserved(self, transactional_id: str) -> list[Ledger]:
        """Where the transaction's end is to be told."""
        found = map(self._state.ledger_of, self.reservations.get(transactional_id, ()))
        return list({ledger: None for ledger in found if ledger is not None})

    # --- asking -----------------------------------------------------------------------------------

    def in_flight(
        self, group: str, *, which: WhichInFlight | None = None, limit: int = 1000
    ) -> list[InFlight]:
        """Who holds what of this node's partitions, until when.

        Ahead of the ledgers, for verbs that end with a barrier.
        """
        found = self._state.group(GroupId(group))
        return stats.in_flight(found, which or WhichInFlight(), limit)

    async def list_held(
        self, group: str, which: WhichInFlight, limit: int, missing: Missing
    ) -> list[InFlight]:
        """Who holds what, at all leaders; `missing` tells of those that are not reached."""
        if self._overview is not None:
            return await self._overview.list_held(GroupId(group), which, limit, missing)
        async with self.barrier:
            return self.in_flight(group, which=which, limit=limit)

    def begun_topics(self, group_id: GroupId) -> list[TopicName]:
        """Those that the group has begun in, at this node."""
        group = self.groups.get(group_id)
        return [] if group is None else sorted({topic for topic, _ in group.states})

    async def stats(
        self, group: str | None = None, missing: Missing | None = None
    ) -> list[GroupStats]:
        """Of one group, or of all; `missing` tells of leaders that are not reached."""
        if self._overview is not None:
            group_id = None if group is None else GroupId(group)
            return await self._overview.stats(group_id, {} if missing is None else missing)
        async with self.barrier:
            return await self.stats_ahead(group)

    async def stats_ahead(self, group: str | None = None) -> list[GroupStats]:
        """As `stats`, of what this node leads; for metrics: no sync is asked for."""
        groups = list(self.groups.values())
        if group is not None:
            groups = [self._state.group(GroupId(group))]
        now = self._clock.steady()
        problem = self._dead_letter_writer.problem
        return [await stats.group_stats(each, self._subscriptions, now, problem) for each in groups]

    def consumers(self, group_id: GroupId) -> dict[str, tuple[str, ...]]:
        """Who is at work in the group, joined or not, and for which topics it asked last."""
        if group_id not in self.groups:
            return {}
        dispatcher = self.dispatchers.get(group_id)
        return dispatcher.consumers.at_work(dispatcher.group.book, self._clock.instant())

    def is_known(self, group_id: GroupId) -> bool:
        """Whether the group has begun in a topic, or something is set for its queues."""
        return group_id in self.groups or self._configs.has_queue_settings(group_id)


def _group_id(name: str) -> GroupId:
    check_length(name, "group")
    return GroupId(name)
