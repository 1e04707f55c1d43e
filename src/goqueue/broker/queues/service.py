"""Queues at work: the queue machine on `__ledgers`, and the verbs that all listeners share.

    receive ── choose (read the log) ── decide ── durable ──> messages with receipts
    ack, nack, reject, extend, release ── decide ── durable ──> an outcome for each receipt

Everything that is answered is on disk, except for deliveries of groups with
`delivery_durability=async`: those survive the end of the process, not a power cut.  Nothing here
needs a member of a consumer group: a consumer is a name.  If a caller goes away, the messages that
it was about to get are released at once.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
import structlog

from goqueue.broker.barrier import Barrier
from goqueue.broker.dlq.browse import DeadLetters
from goqueue.broker.dlq.redrive import Redriver
from goqueue.broker.dlq.redrive_jobs import Redrives
from goqueue.broker.dlq.writer import DeadLetterWriter, UnwrittenDeadLetters
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.queues import stats
from goqueue.broker.queues.acknowledgement import (
    Ack,
    Ending,
    Extend,
    Nack,
    Reject,
    Release,
    check,
    check_number,
    decide,
    told,
)
from goqueue.broker.queues.dispatcher import Dispatcher, Served, Source
from goqueue.broker.queues.ledger_split import split_ledgers
from goqueue.broker.queues.ledgers import (
    Ledger,
    Ledgers,
    Waiting,
    submit_all,
    wait_durable,
)
from goqueue.broker.queues.offset_sync import OffsetSync
from goqueue.broker.queues.state import QueueState
from goqueue.broker.queues.stats import WhichInFlight
from goqueue.broker.queues.subscriptions import Subscriptions
from goqueue.broker.services import BrokerServices
from goqueue.groups import GroupSettings
from goqueue.model.errors import GoQueueError, InvalidName, OffsetOutOfRange, ShuttingDown
from goqueue.model.ids import GroupId, Offset, TopicId, TopicName, TopicPartition
from goqueue.model.limits import RECEIVE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_MS_MAX
from goqueue.queue import (
    Delivered,
    GroupStats,
    GroupTable,
    InFlight,
    Peeked,
    QueueRegistry,
    QueueSettings,
    ReceiptExpired,
    Settled,
    SettleOutcome,
    TooManyInFlight,
    Where,
)
from goqueue.queue.delivery_batch import DeliveryBatch
from goqueue.queue.group import QueueGroup
from goqueue.queue.machine import UNKNOWN, Due
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.receipts import Claims, read_receipts
from goqueue.queue.settling import Outcomes, Verdict

NAME_LENGTH_MAX: Final = 249  # of groups and consumers

_log = structlog.get_logger("goqueue.queues")


class Wanted(msgspec.Struct, frozen=True):
    """What a consumer asks for."""

    topics: list[str]
    group_id: GroupId
    consumer: str
    count: int
    size: int
    visibility_ms: int | None
    places: frozenset[TopicPartition] | None = None  # partitions; None: all of the topics
    whole_batches: bool = False


class Queues:
    """The verbs of queues.  Refusals are raised as `QueueError`, or are an item's outcome."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._configs = services.group_configs
        self._state = QueueState(services, self.on_deadline)
        self._dispatchers: dict[GroupId, Dispatcher] = {}
        self._dead_letter_writer = DeadLetterWriter(services, self._state)
        self._offset_sync = OffsetSync(services, self._state)
        self._subscriptions = Subscriptions(services, self._state, self._offset_sync)
        self._redriver = Redriver(services, self._state)
        self.dead_letters = DeadLetters(services, self._state, self._redriver)
        self.redrives = Redrives(self._clock, self.dead_letters)
        self._stopping = False
        self._active_ms = services.config.groups.session_timeout_ms  # after a consumer asked last

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
        await self._resume()
        self._redriver.inherit()

    def _take_in(self, group_ids: Collection[GroupId]) -> None:
        """Groups that only ledgers know, after a crash; those that they forgot are none."""
        for group_id in group_ids:
            if self.groups[group_id].states:
                self._state.registry.defer(lambda each, group_id=group_id: each.begin(group_id))  # type: ignore[misc]
            else:
                del self.groups[group_id]

    async def _resume(self) -> None:
        now, skips_leases = self._clock.steady(), self._configs.has_async_deliveries()
        await asyncio.gather(
            *(
                ledger.submit_or_defer(lambda each: each.resume(now, skips_leases=skips_leases))
                for ledger in self._state.ledgers
            )
        )

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

    async def settled(self) -> None:
        """Return when everything that was decided of queues so far is committed."""
        await self._state.settled()

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
            tasks.create_task(self._state.registry.run())
            tasks.create_task(self._state.ledgers.run())
            tasks.create_task(self._dead_letter_writer.run())
            tasks.create_task(self._redriver.run())
            tasks.create_task(self._offset_sync.run())
            tasks.create_task(self._subscriptions.run(self._dispatchers))

    def retry_dead_letters(self) -> None:
        """A topic was changed: what could not be written may fit now."""
        self._dead_letter_writer.retry()

    def unwritten_dead_letters(self) -> list[UnwrittenDeadLetters]:
        """Dead messages that cannot be written to the dead letters, and why."""
        return self._dead_letter_writer.unwritten()

    def on_deadline(self, due: Due, _: Committed) -> None:
        """The host tells of messages that became ready, or that died."""
        for group_id in due.groups:
            self._notify(group_id)
        if due.has_dead:
            self._dead_letter_writer.wake()

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopping = True
        self._redriver.stop()
        for dispatcher in self._dispatchers.values():
            dispatcher.notify_all()

    async def finish(self) -> None:
        """Before the logs are closed: let the committed offsets say what the floors say."""
        await self._offset_sync.commit_ack_floors()

    async def log_recovered(
        self, topic: TopicName, index: int, topic_id: TopicId, end: Offset
    ) -> None:
        """A partition was opened: forget what groups did behind its end, which it has lost."""
        ledger = self._state.ledgers.find(topic, index)
        if ledger is None:
            return
        floors = await ledger.submit(lambda machine: machine.shorten_log(topic_id, end))
        for where, floor in floors:
            _log.warning(
                "queue group drawn back: the log lost its end, what is written there now is new",
                group=where.group_id,
                topic=topic,
                partition=index,
                floor=floor,
                log_end=end,
            )

    def topic_deleted(self, name: str) -> None:
        """Its ledgers go with it."""
        self._state.ledgers.drop(name)
        for group in self.groups.values():
            group.topic_totals.pop(TopicName(name), None)
        self._subscriptions.forget(name)

    # --- groups -----------------------------------------------------------------------------------

    async def configure(self, group: str, settings: QueueSettings) -> QueueSettings:
        """Set how the group works its topics off, from now on; it need not be there."""
        group_id = _group_id(group)
        self.check(settings)
        await self._configs.set_queue_settings(group_id, settings)
        self._notify(group_id)
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
        await self._subscriptions.find(topics, group_id)

    async def forget(self, group: str) -> None:
        """Delete the group's states and settings; what was in flight is void."""
        group_id = _group_id(group)
        if group_id in self.groups:
            await self._forget_states(group_id)
            self._dispatchers.pop(group_id, None)
        await self._configs.unset_queue_settings(group_id)

    async def _forget_states(self, group_id: GroupId) -> None:
        """In one step, so that nobody begins anew meanwhile; a crash may leave some of it."""
        states = [
            ledger.submit_now(lambda machine: machine.forget_group(group_id))
            for ledger in self._state.ledgers_of(group_id)
        ]
        group = self._state.registry.submit_now(lambda each: each.forget_group(group_id))
        for _, committed in (*states, group):
            if committed is not None:
                await committed

    async def forget_partitions(self, group: str, topic: str) -> list[int]:
        """Let the group begin anew in a topic; gives the partitions it had begun in."""
        group_id = _group_id(group)
        ledgers = self._state.ledgers_of(self._group(group_id).group_id, topic)
        found = sorted(ledger.ahead.partition for ledger in ledgers)
        await submit_all(ledgers, lambda machine: machine.forget_group(group_id))
        return found

    async def move_ack_floor(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Finish everything below `offset`; back: everything from there on comes again."""
        group_id = _group_id(group)
        found = await self._subscriptions.find([topic], group_id)
        if not 0 <= partition < len(found):
            await self._services.partition(topic, partition)  # raises what is wrong
        log = found[partition][1].partition.log
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is outside {log.start_offset} to {log.end_offset}"
            )
        ledger = found[partition][2]
        assert ledger is not None, "the group has begun there"
        await ledger.submit(lambda machine: machine.move_ack_floor(group_id, Offset(offset)))
        self._notify(group_id)

    # --- receiving --------------------------------------------------------------------------------

    async def receive(
        self,
        topics: Sequence[str],
        group: str,
        consumer: str,
        *,
        max_messages: int = 10,
        max_bytes: int = RECEIVE_BYTES_MAX,
        wait_ms: int = 0,
        visibility_ms: int | None = None,
        places: Collection[TopicPartition] | None = None,
    ) -> list[Delivered]:
        """As `receive_batches`, message by message."""
        deliveries = await self.receive_batches(
            topics,
            group,
            consumer,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            visibility_ms=visibility_ms,
            places=places,
        )
        return [message for delivery in deliveries for message in delivery.messages()]

    async def receive_batches(
        self,
        topics: Sequence[str],
        group: str,
        consumer: str,
        *,
        max_messages: int = 10,
        max_bytes: int = RECEIVE_BYTES_MAX,
        wait_ms: int = 0,
        visibility_ms: int | None = None,
        places: Collection[TopicPartition] | None = None,
        whole_batches: bool = False,
    ) -> list[DeliveryBatch]:
        """Up to so many messages, waiting up to `wait_ms` for the first; empty when none came.

        The group begins when it first receives.  `max_bytes` counts keys and values, and lets at
        least one message through.  Raises `TooManyInFlight` when the consumer or the group holds
        too many all the while.  `places` are the partitions to look at, if not all; with
        `whole_batches` it may be more than `max_messages`, rather than a part of a batch.  Cancel
        it to give up: nothing stays with the consumer then.
        """
        group_id = _group_id(group)
        _check_name(consumer, "consumer")
        await self._services.groups.refuse_members(group_id)
        check_number(max_messages, "max_messages", 1, RECEIVE_MESSAGES_MAX)
        check_number(max_bytes, "max_bytes", 1, 2**31)
        if visibility_ms is not None:
            check_number(visibility_ms, "visibility_ms", 1, VISIBILITY_MS_MAX)
        only = None if places is None else frozenset(places)
        wanted = Wanted(
            list(topics),
            group_id,
            consumer,
            max_messages,
            max_bytes,
            visibility_ms,
            only,
            whole_batches,
        )
        sources = await self._sources_of(wanted)
        known = self._version(group_id, sources)
        self._hear(wanted, wait_ms)
        deliveries = await self._attempt(wanted, sources)
        if deliveries:
            return deliveries
        if wait_ms > 0:
            deliveries = await self._wait_and_attempt(wanted, wait_ms, known)
        elif await self._subscriptions.flush(wanted.topics):
            deliveries = await self._attempt(wanted, await self._sources_of(wanted))
        if not deliveries and self._group(group_id).room(consumer) <= 0:
            raise TooManyInFlight(_crowd(self._group(group_id), consumer))
        return deliveries

    def _hear(self, wanted: Wanted, wait_ms: int) -> None:
        until = self._clock.instant() + (wait_ms + self._active_ms) * 1_000_000
        dispatcher = self._dispatcher(wanted.group_id)
        dispatcher.consumers.hear(wanted.consumer, tuple(wanted.topics), until)

    async def _wait_and_attempt(
        self, wanted: Wanted, wait_ms: int, known: tuple[object, ...]
    ) -> list[DeliveryBatch]:
        """`known`: how it was before the last look, which was in vain."""
        deadline = self._clock.instant() + wait_ms * 1_000_000
        sources = await self._sources_of(wanted)
        dispatcher = self._dispatcher(wanted.group_id)
        with dispatcher.wait_queue(
            wanted.topics, [reader.partition for _, reader, _ in sources]
        ) as wait_queue:
            has_news = self._version(wanted.group_id, sources) != known
            deliveries, committed = list[DeliveryBatch](), list[asyncio.Future[None]]()
            while True:
                seen = wait_queue.notifications
                if has_news:
                    try:
                        sources = await self._sources_of(wanted)
                        deliveries, committed = await self._serve(wanted, sources)
                    except BaseException:
                        wait_queue.notify_next()  # it does not take what it was woken for
                        raise
                    if deliveries:
                        break
                has_news = True  # from the next turn on
                is_crowded = dispatcher.group.room(wanted.consumer) <= 0
                if is_crowded or self._is_partial(wanted):
                    wait_queue.notify_next()  # others may have room, or look elsewhere
                seconds = (deadline - self._clock.instant()) / 1e9
                if seconds <= 0:
                    return []
                dispatcher.crowded += is_crowded
                try:
                    await wait_queue.wait_after(seen, seconds)
                finally:
                    dispatcher.crowded -= is_crowded
            if self._is_partial(wanted) or dispatcher.has_some(sources):
                wait_queue.notify_next()  # only then: a wake-up for nothing costs as much
        return await self._wait_durable(deliveries, committed)

    async def _sources_of(self, wanted: Wanted) -> list[Source]:
        sources = await self._subscriptions.find(wanted.topics, wanted.group_id)
        if wanted.places is None:
            return sources
        return [
            source
            for source in sources
            if (source[0].where.topic, source[0].where.partition) in wanted.places
        ]

    def _is_partial(self, wanted: Wanted) -> bool:
        """Whether there are partitions that it does not look at."""
        if wanted.places is None:
            return False
        count = sum(self._services.topic(topic).partitions for topic in wanted.topics)
        return len(wanted.places) < count

    def _version(self, group_id: GroupId, sources: Sequence[Source]) -> tuple[object, ...]:
        """While this is the same, so is what can be delivered."""
        dispatcher = self._dispatcher(group_id)
        return (
            dispatcher,
            dispatcher.news,
            *((reader.limit, reader.index.end) for _, reader, _ in sources),
        )

    async def _attempt(self, wanted: Wanted, sources: Sequence[Source]) -> list[DeliveryBatch]:
        """Serve the consumer with what is there now, durably."""
        return await self._wait_durable(*await self._serve(wanted, sources))

    async def _serve(self, wanted: Wanted, sources: Sequence[Source]) -> Served:
        if self._stopping:
            raise ShuttingDown("this broker is shutting down")
        dispatcher = self._dispatcher(wanted.group_id)
        if dispatcher.group.room(wanted.consumer) <= 0 or not dispatcher.has_some(sources):
            return [], []
        served = await dispatcher.serve(
            sources,
            wanted.consumer,
            count=wanted.count,
            size=wanted.size,
            visibility_ms=wanted.visibility_ms,
            whole_batches=wanted.whole_batches,
        )
        self._write_dead_letters()
        return served

    async def _wait_durable(
        self, deliveries: list[DeliveryBatch], committed: Sequence[asyncio.Future[None]]
    ) -> list[DeliveryBatch]:
        """The deliveries, when it is durable whose they are."""
        try:
            for each in committed:
                await each  # nobody else waits for this one
        except asyncio.CancelledError:
            self.release_batches(deliveries)
            raise
        return deliveries

    def release_batches(self, deliveries: Sequence[DeliveryBatch]) -> None:
        """The caller has gone: let others have the messages at once."""
        claims: Claims = {}
        count = 0
        for delivery in deliveries:
            claims[delivery.where, delivery.lease_id] = delivery.claims(count)
            count += delivery.count
        try:
            self._settle_now(claims, count, Release(deliveries_max=0))  # they were never delivered
        except GoQueueError as error:  # their time will run out
            _log.warning("messages of a lost caller not released", problem=str(error))
        self._notify(deliveries[0].where.group_id)

    async def peek(self, group: str, topic: str, count: int) -> list[Peeked]:
        """What would be delivered next; nothing changes."""
        group_id = _group_id(group)
        check_number(count, "count", 1, RECEIVE_MESSAGES_MAX)
        sources = await self._subscriptions.peek(self._services.topic(topic), group_id)
        if all(self._state.state(state.where) is state for state, *_ in sources):
            return await self._dispatcher(group_id).peek(sources, count)
        visitor = QueueGroup(group_id, self._configs.queue_settings)  # it has not begun there
        return await Dispatcher(self._clock, visitor).peek(sources, count)

    # --- settling: an outcome for each receipt, in order ------------------------------------------

    async def ack(self, receipts: Sequence[str]) -> list[SettleOutcome]:
        """The messages are done with.  A repeated ack succeeds again.

        Outcomes are `Settled`, or `ReceiptMalformed` (400), `ReceiptUnknown` (404) or
        `ReceiptExpired` (409); so are those of the next verbs.
        """
        return await self.settle(receipts, Ack())

    async def nack(
        self, receipts: Sequence[str], *, delay_ms: int | None = None, reason: str = ""
    ) -> list[SettleOutcome]:
        """The deliveries failed: come again after `delay_ms`, or the group's backoff, or die."""
        return await self.settle(receipts, Nack(delay_ms, reason))

    async def reject(self, receipts: Sequence[str], *, reason: str) -> list[SettleOutcome]:
        """The messages become dead letters at once."""
        return await self.settle(receipts, Reject(reason))

    async def extend(self, receipts: Sequence[str], *, visibility_ms: int) -> list[SettleOutcome]:
        """The consumer has `visibility_ms` from now on."""
        return await self.settle(receipts, Extend(visibility_ms))

    async def release(self, receipts: Sequence[str], *, delay_ms: int = 0) -> list[SettleOutcome]:
        """Give the messages back untouched: no failure is counted."""
        return await self.settle(receipts, Release(delay_ms))

    async def settle(self, receipts: Sequence[str], ending: Ending) -> list[SettleOutcome]:
        claims, malformed = read_receipts(receipts)
        outcomes = await self._settle(claims, len(receipts), ending)
        for place, error in malformed.items():
            outcomes[place] = error
        return outcomes

    async def refusals(self, receipts: Sequence[str], ending: Ending) -> dict[int, GoQueueError]:
        """As `settle`, for who wants to know only what did not go well, by place."""
        claims, malformed = read_receipts(receipts)
        check(ending)
        outcomes, waiting = self._settle_now(claims, len(receipts), ending)
        refused: dict[int, GoQueueError] = {}
        if set(map(type, outcomes)) != {Verdict}:
            refused = {
                place: outcome
                for place, outcome in enumerate(outcomes)
                if isinstance(outcome, GoQueueError)
            }
        await wait_durable(waiting)
        return refused | malformed

    # --- settling by offset: for share groups and operators ---------------------------------------

    async def ack_range(
        self,
        group: str,
        topic: str,
        partition: int,
        first: int,
        last: int,
        *,
        consumer: str | None = None,
    ) -> list[Settled]:
        """Ack what is in flight from `first` to `last`; only what `consumer` holds, if given."""
        where = Where(GroupId(group), TopicName(topic), partition)
        return await self.settle_range(where, first, last, Ack(), consumer=consumer)

    async def settle_range(
        self, where: Where, first: int, last: int, ending: Ending, *, consumer: str | None = None
    ) -> list[Settled]:
        """End what is in flight from `first` to `last`; gives what that was, in order."""
        claims = self.leased(where, first, last, consumer)
        count = _count(claims)
        outcomes = await self._settle(claims, count, ending)
        return [outcome for outcome in outcomes if isinstance(outcome, Settled)]

    def leased(self, where: Where, first: int, last: int, consumer: str | None = None) -> Claims:
        """What is in flight in a range of offsets, as receipts for it would be read."""
        ledger = self._state.ledgers.find(where.topic, where.partition)
        if ledger is None:
            return {}
        return ledger.ahead.in_flight(where.group_id, first, last, consumer)

    def settle_ranges(
        self, where: Where, endings: Sequence[tuple[int, int, Ending]], *, consumer: str
    ) -> list[Waiting]:
        """End ranges that do not overlap, first to last; gives what is to be made durable.

        Raises `ReceiptExpired`, and ends nothing, unless `consumer` holds all.
        """
        found: list[tuple[Claims, int, Ending]] = []
        for first, last, ending in endings:
            check(ending)
            claims = self.leased(where, first, last, consumer)
            count = _count(claims)
            if count != last - first + 1:
                raise ReceiptExpired(f"{consumer!r} does not hold all of {first} to {last}")
            found.append((claims, count, ending))
        waiting: list[Waiting] = []
        for each in found:
            outcomes, waiting = self._settle_now(*each)
            assert set(map(type, outcomes)) == {Verdict}, "all were in flight"
        return waiting  # with the last one, those before it: they are of one ledger

    async def remove_consumer(
        self, group: str, consumer: str, *, failed: bool, deliveries_max: int | None = None
    ) -> int:
        """Take back what the consumer holds; `failed` unless it left politely.  Gives how many.

        Messages that were delivered `deliveries_max` times die; None: the group's setting.
        """
        group_id = _group_id(group)
        self.forget_consumer(group_id, consumer)
        limit = deliveries_max
        decided = self._release_leases(group_id, consumer, failed=failed, deliveries_max=limit)
        for _, committed in decided:
            if committed is not None:
                await committed
        self._notify(group_id)
        self._write_dead_letters()
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
            for ledger in self._state.ledgers_of(self._group(group_id).group_id)
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
        if group_id not in self.groups or self._stopping:
            return
        self.forget_consumer(group_id, consumer)
        try:
            self._release_leases(group_id, consumer, failed=failed, deliveries_max=deliveries_max)
        except GoQueueError as error:  # their time will run out
            _log.warning("messages of a lost consumer not released", problem=str(error))
        self._notify(group_id)
        self._write_dead_letters()

    async def _settle(self, claims: Claims, count: int, ending: Ending) -> list[SettleOutcome]:
        check(ending)
        outcomes, waiting = self._settle_now(claims, count, ending)
        results = told(self._state.table, claims, outcomes)
        await wait_durable(waiting)
        return results

    def _settle_now(
        self, claims: Claims, count: int, ending: Ending
    ) -> tuple[Outcomes, list[Waiting]]:
        """A decision for each ledger; a ledger that cannot be written refuses its receipts.

        Raises that when it is the only one.
        """
        now = self._clock.steady()
        outcomes: Outcomes = [UNKNOWN] * count
        waiting: list[Waiting] = []
        by_ledger = self._by_ledger(claims)
        for ledger, mine in by_ledger.items():
            try:
                _, written = ledger.write(
                    lambda machine, mine=mine: decide(machine, ending, now, mine, outcomes)  # type: ignore[misc]
                )
            except GoQueueError as error:
                if len(by_ledger) == 1:
                    raise
                _refuse(mine, outcomes, error)
            else:
                waiting.append(Waiting(ledger, written))
        self._tell_others(claims, ending)
        return outcomes, waiting

    def _by_ledger(self, claims: Claims) -> dict[Ledger, Claims]:
        found: dict[Ledger, Claims] = {}
        for key, some in claims.items():
            ledger = self._state.ledgers.find(key[0].topic, key[0].partition)
            if ledger is not None:
                found.setdefault(ledger, {})[key] = some
        return found

    def _tell_others(self, claims: Claims, ending: Ending) -> None:
        """Somebody may wait for what came back, or for room."""
        for group_id in {where.group_id for where, _ in claims}:
            dispatcher = self._dispatchers.get(group_id)
            if dispatcher is None:
                continue
            if isinstance(ending, Nack | Release):
                dispatcher.notify_one()
            else:
                dispatcher.notify_room()
        if isinstance(ending, Nack | Reject | Release):
            self._write_dead_letters()

    # --- transactions -----------------------------------------------------------------------------

    @property
    def reservations(self) -> Mapping[str, Mapping[PartitionState, None]]:
        """Transactional ids to where they have, or had until lately, messages reserved."""
        return self._state.table.reservations

    def ledgers_with_reserved(self, transactional_id: str) -> list[Ledger]:
        """Where the transaction's end is to be told."""
        found = map(self._state.ledger_of, self.reservations.get(transactional_id, ()))
        return list({ledger: None for ledger in found if ledger is not None})

    def reserve(
        self, claims: Claims, count: int, transactional_id: str
    ) -> tuple[Outcomes, list[Waiting]]:
        """Let messages in flight be acked by the end of a transaction; all of them or none."""
        outcomes: Outcomes = [UNKNOWN] * count
        decided = [
            (ledger, ledger.ahead.reserve_for_transaction(mine, outcomes, transactional_id))
            for ledger, mine in self._by_ledger(claims).items()
        ]
        if any(isinstance(outcome, GoQueueError) for outcome in outcomes):
            return outcomes, []
        return outcomes, [
            Waiting(ledger, ledger.write(lambda _, decision=decision: decision)[1])  # type: ignore[misc]
            for ledger, decision in decided
        ]

    # --- asking -----------------------------------------------------------------------------------

    def in_flight(
        self, group: str, *, which: WhichInFlight | None = None, limit: int = 1000
    ) -> list[InFlight]:
        """Who holds what, until when; ahead of the ledgers, for verbs that end with a barrier."""
        found = self._group(GroupId(group))
        return stats.in_flight(found, which or WhichInFlight(), limit)

    async def stats(self, group: str | None = None) -> list[GroupStats]:
        """Of one group, or of all."""
        async with self.barrier:
            return await self.stats_ahead(group)

    async def stats_ahead(self, group: str | None = None) -> list[GroupStats]:
        """As `stats`, for metrics: no sync is asked for."""
        groups = list(self.groups.values())
        if group is not None:
            groups = [self._group(GroupId(group))]
        now = self._clock.steady()
        problem = self._dead_letter_writer.problem
        return [await stats.group_stats(each, self._subscriptions, now, problem) for each in groups]

    def consumers(self, group_id: GroupId) -> dict[str, tuple[str, ...]]:
        """Who is at work in the group, joined or not, and for which topics it asked last."""
        if group_id not in self.groups:
            return {}
        dispatcher = self._dispatcher(group_id)
        return dispatcher.consumers.at_work(dispatcher.group.book, self._clock.instant())

    def forget_consumer(self, group_id: GroupId, consumer: str) -> None:
        """The consumer has left: it is not at work unless it asks again."""
        dispatcher = self._dispatchers.get(group_id)
        if dispatcher is not None:
            dispatcher.consumers.forget(consumer)

    # --- helpers ----------------------------------------------------------------------------------

    def is_known(self, group_id: GroupId) -> bool:
        """Whether the group has begun in a topic, or something is set for its queues."""
        return group_id in self.groups or self._configs.has_queue_settings(group_id)

    def _group(self, group_id: GroupId) -> QueueGroup:
        if group_id not in self.groups and self._configs.has_queue_settings(group_id):
            return QueueGroup(group_id, self._configs.queue_settings)  # it has not begun
        return self._state.table.group(group_id)

    def _dispatcher(self, group_id: GroupId) -> Dispatcher:
        group = self._group(group_id)
        dispatcher = self._dispatchers.get(group_id)
        if dispatcher is None or dispatcher.group is not group:
            dispatcher = self._dispatchers[group_id] = Dispatcher(self._clock, group)
        return dispatcher

    def _notify(self, group_id: GroupId) -> None:
        dispatcher = self._dispatchers.get(group_id)
        if dispatcher is not None:
            dispatcher.notify_one()

    def notify_room(self, group_id: GroupId) -> None:
        """Messages were finished otherwise: somebody may wait for room, or for their keys."""
        dispatcher = self._dispatchers.get(group_id)
        if dispatcher is not None:
            dispatcher.notify_room()

    def _write_dead_letters(self) -> None:
        if self._state.table.has_dead:
            self._dead_letter_writer.wake()


def _group_id(name: str) -> GroupId:
    _check_name(name, "group")
    return GroupId(name)


def _check_name(name: str, what: str) -> None:
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise InvalidName(f"a {what} has a name of 1 to {NAME_LENGTH_MAX} characters")


def _refuse(claims: Claims, outcomes: Outcomes, error: GoQueueError) -> None:
    for some in claims.values():
        for claim in some:
            outcomes[claim.places] = [error] * claim.size


def _count(claims: Claims) -> int:
    return sum(claim.size for some in claims.values() for claim in some)


def _crowd(group: QueueGroup, consumer: str) -> str:
    in_flight, most = group.book.consumers.get(consumer, 0), group.settings.max_in_flight_consumer
    if in_flight >= most:
        return f"{consumer!r} holds {in_flight} messages, {most} allowed (max_in_flight_consumer)"
    return (
        f"group {group.group_id!r} holds {group.book.in_flight} messages,"
        f" {group.settings.max_in_flight_group} allowed (max_in_flight_group)"
    )
