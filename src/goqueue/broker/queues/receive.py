"""Receiving: messages for a consumer that asks, now or when there are some.

    Receiver          checks the request, waits, and answers when it is durable whose they are
      Subscriptions   the partitions of the topics, each with the group's state and its ledger
      Dispatcher      the group's: whose turn it is, which messages, and the ledgers' decision
        PrefetchBuffer      the group's records of one partition that are loaded
          PartitionReader   the partition's records, for all groups

If a caller goes away, the messages that it was about to get are released at once.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from goqueue.broker.dlq.writer import DeadLetterWriter
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.queues.acknowledgement import Release, check_number
from goqueue.broker.queues.dispatcher import Dispatcher, Served, Source
from goqueue.broker.queues.dispatchers import Dispatchers
from goqueue.broker.queues.group_link import GroupLink
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.settlement import Settlement
from goqueue.broker.queues.state import QueueState
from goqueue.broker.queues.subscriptions import Subscriptions
from goqueue.broker.services import BrokerServices
from goqueue.model.errors import GoQueueError, NotLeader, ShuttingDown
from goqueue.model.ids import GroupId, NodeId, TopicPartition
from goqueue.model.limits import RECEIVE_MESSAGES_MAX
from goqueue.model.names import check_length
from goqueue.queue import DeliveryBatch, Peeked, QueueGroup, Span, TooManyInFlight, Where, claims_of
from goqueue.queue.receipts import Claims

_log = structlog.get_logger("goqueue.queues")


class Elsewhere(Protocol):
    """The other nodes that lead partitions (`receive_elsewhere`)."""

    def leaders(self, topics: Sequence[str], /) -> list[NodeId]: ...

    def is_all_here(self, leaders: Sequence[NodeId], /) -> bool: ...

    async def receive(
        self, request: ReceiveRequest, wait_ms: int, leaders: list[NodeId], /
    ) -> list[DeliveryBatch]: ...

    async def begin(
        self, group_id: GroupId, topics: Sequence[str], leaders: list[NodeId], /
    ) -> None: ...

    async def give_back(self, deliveries: Sequence[DeliveryBatch], /) -> None: ...

    async def peek(
        self,
        group_id: GroupId,
        topic: str,
        count: int,
        leaders: Sequence[NodeId],
        missing: dict[TopicPartition, GoQueueError],
        /,
    ) -> list[Peeked]: ...


class Receiver:
    def __init__(
        self,
        services: BrokerServices,
        state: QueueState,
        dispatchers: Dispatchers,
        subscriptions: Subscriptions,
        settlement: Settlement,
        dead_letter_writer: DeadLetterWriter,
        coordinator: GroupLink,
    ) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._active_ms = services.config.groups.session_timeout_ms  # after a consumer asked last
        self._state = state
        self._dispatchers = dispatchers
        self._subscriptions = subscriptions
        self._settlement = settlement
        self._dead_letter_writer = dead_letter_writer
        self._coordinator = coordinator
        self.elsewhere: Elsewhere | None = None  # in a cluster
        self._stopping = False

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopping = True
        self._dispatchers.notify_all()

    async def receive(self, request: ReceiveRequest, wait_ms: int = 0) -> list[DeliveryBatch]:
        """Messages, waiting up to `wait_ms` for the first; empty when none came.

        The group begins when it first receives.  Raises `TooManyInFlight` when the consumer or the
        group holds too many all the while.  Cancel it to give up: nothing stays with the consumer
        then.
        """
        elsewhere = self.elsewhere
        if elsewhere is not None and request.places is None:
            leaders = elsewhere.leaders(request.topics)
            if not elsewhere.is_all_here(leaders):
                request.check()
                return await elsewhere.receive(request, wait_ms, leaders)
        return await self.receive_here(request, wait_ms)

    async def receive_here(self, request: ReceiveRequest, wait_ms: int) -> list[DeliveryBatch]:
        """As `receive`, from the partitions that this node leads."""
        request.check()
        group_id = request.group_id
        await self._coordinator.refuse_streams(group_id)
        sources = await self._sources_of(request)
        dispatcher = self._dispatchers.get(group_id)
        self._divide_limits(dispatcher.group)
        known = _version(dispatcher, sources)
        until = self._clock.instant() + (wait_ms + self._active_ms) * 1_000_000
        dispatcher.consumers.hear(request.consumer, tuple(request.topics), until)
        deliveries = await self._attempt(request, sources)
        if deliveries:
            return deliveries
        if wait_ms > 0:
            deliveries = await self._wait_and_attempt(request, wait_ms, known)
        elif await self._subscriptions.flush(request.topics):
            deliveries = await self._attempt(request, await self._sources_of(request))
        if not deliveries:
            _refuse_crowd(self._state.group(group_id), request.consumer)
        return deliveries

    def _divide_limits(self, group: QueueGroup) -> None:
        """Each leader grants its part of the group's limits, by the partitions that it leads."""
        if self._services.others is None:
            return
        names = {place.topic for place in group.states if self._services.has_topic(place.topic)}
        group.led = len(group.states)
        group.partitions = sum(self._services.topic(name).partitions for name in names)

    # --- waiting ----------------------------------------------------------------------------------

    async def _wait_and_attempt(
        self, request: ReceiveRequest, wait_ms: int, known: tuple[object, ...]
    ) -> list[DeliveryBatch]:
        """`known`: how it was before the last look, which was in vain."""
        poll, is_over = LongPoll(self._clock, wait_ms), False
        sources = await self._sources_of(request)
        dispatcher = self._dispatchers.get(request.group_id)
        partitions = [reader.partition for _, reader, _ in sources]
        with dispatcher.wait_queue(request.topics, partitions) as wait_queue:
            has_news = _version(dispatcher, sources) != known
            served: Served = [], []
            while True:
                seen = wait_queue.notifications
                if has_news:
                    try:
                        sources = await self._sources_of(request)
                        wait_queue.attach(reader.partition for _, reader, _ in sources)
                        served = await self._serve(request, sources)
                    except BaseException:
                        wait_queue.notify_next()  # it does not take what it was woken for
                        raise
                    if served[0]:
                        break
                is_crowded = dispatcher.group.room(request.consumer) <= 0
                if is_crowded or self._is_partial(request):
                    wait_queue.notify_next()  # others may have room, or look elsewhere
                if is_over:
                    return []
                dispatcher.crowded += is_crowded
                try:
                    is_over = not await wait_queue.wait_after(seen, poll)
                finally:
                    dispatcher.crowded -= is_crowded
                has_news = True
            if self._is_partial(request) or dispatcher.has_some(sources):
                wait_queue.notify_next()  # only then: a wake-up for nothing costs as much
        return await self._wait_durable(*served)

    def _is_partial(self, request: ReceiveRequest) -> bool:
        """Whether there are partitions that it does not look at."""
        if request.places is None:
            return False
        count = sum(self._services.topic(topic).partitions for topic in request.topics)
        return len(request.places) < count

    # --- serving ----------------------------------------------------------------------------------

    async def _sources_of(self, request: ReceiveRequest) -> list[Source]:
        sources = await self._subscriptions.find(request.topics, request.group_id)
        if request.places is None:
            return sources
        return [
            source
            for source in sources
            if (source[0].where.topic, source[0].where.partition) in request.places
        ]

    async def _attempt(
        self, request: ReceiveRequest, sources: Sequence[Source]
    ) -> list[DeliveryBatch]:
        """Serve the consumer with what is there now, durably."""
        return await self._wait_durable(*await self._serve(request, sources))

    async def _serve(self, request: ReceiveRequest, sources: Sequence[Source]) -> Served:
        if self._stopping:
            raise ShuttingDown("this broker is shutting down")
        dispatcher = self._dispatchers.get(request.group_id)
        if dispatcher.group.room(request.consumer) <= 0 or not dispatcher.has_some(sources):
            return [], []
        served = await dispatcher.serve(request, sources)
        self._dead_letter_writer.wake_if_due()
        return served

    async def _wait_durable(
        self, deliveries: list[DeliveryBatch], committed: Sequence[asyncio.Future[None]]
    ) -> list[DeliveryBatch]:
        """The deliveries, when it is durable whose they are."""
        try:
            for each in committed:
                await each  # nobody else waits for this one
        except (asyncio.CancelledError, NotLeader):  # some may be led here all the same
            self.release(deliveries)
            raise
        return deliveries

    async def begin(self, group_id: GroupId, topics: Sequence[str]) -> None:
        """Let the group begin in the partitions of the topics that this node leads."""
        await self._subscriptions.find(topics, group_id)

    async def begin_everywhere(self, group_id: GroupId, topics: Sequence[str]) -> None:
        """The same in all partitions, wherever they are led."""
        if self.elsewhere is None or not topics:
            await self.begin(group_id, topics)
        else:
            await self.elsewhere.begin(group_id, topics, self.elsewhere.leaders(topics))

    async def give_back(self, deliveries: Sequence[DeliveryBatch]) -> None:
        """The caller has gone: let others have the messages at once, wherever they are led."""
        if self.elsewhere is None:
            self.release(deliveries)
        else:
            await self.elsewhere.give_back(deliveries)

    def release(self, deliveries: Sequence[DeliveryBatch]) -> None:
        """As `give_back`, of what this node leads."""
        self.release_spans([(each.where, each.lease_id, each.spans()) for each in deliveries])

    def release_spans(self, deliveries: Sequence[tuple[Where, int, list[Span]]]) -> None:
        """The same by lease, and first, last and attempt."""
        claims: Claims = {}
        count = 0
        for where, lease_id, spans in deliveries:
            claims[where, lease_id] = claims_of(spans, count)
            count += sum(last - first + 1 for first, last, _ in spans)
        never_delivered = Release(deliveries_max=0)
        try:
            self._settlement.settle_now(claims, count, never_delivered)
        except GoQueueError as error:  # their time will run out
            _log.warning("messages of a lost caller not released", problem=str(error))
        for group_id in {where.group_id for where, *_ in deliveries}:
            self._dispatchers.notify_one(group_id)

    # --- looking ----------------------------------------------------------------------------------

    async def peek(
        self,
        group_id: GroupId,
        topic: str,
        count: int,
        missing: dict[TopicPartition, GoQueueError] | None = None,
    ) -> list[Peeked]:
        """What would be delivered next; nothing changes.  `missing`: leaders that are not reached.

        It is an answer although some are.
        """
        elsewhere = self.elsewhere
        if elsewhere is not None:
            leaders = elsewhere.leaders([topic])
            if not elsewhere.is_all_here(leaders):
                left_out = {} if missing is None else missing
                return await elsewhere.peek(group_id, topic, count, leaders, left_out)
        return await self.peek_here(group_id, topic, count)

    async def peek_here(self, group_id: GroupId, topic: str, count: int) -> list[Peeked]:
        """As `peek`, of the partitions that this node leads."""
        check_length(group_id, "group")
        check_number(count, "count", 1, RECEIVE_MESSAGES_MAX)
        sources = await self._subscriptions.peek(self._services.topic(topic), group_id)
        if all(self._state.state(state.where) is state for state, *_ in sources):
            return await self._dispatchers.get(group_id).peek(sources, count)
        visitor = self._state.visitor(group_id)  # it has not begun there
        return await Dispatcher(self._clock, visitor).peek(sources, count)


def _version(dispatcher: Dispatcher, sources: Sequence[Source]) -> tuple[object, ...]:
    """While this is the same, so is what can be delivered."""
    ends = ((reader.limit, reader.index.end) for _, reader, _ in sources)
    return dispatcher, dispatcher.news, *ends


def _refuse_crowd(group: QueueGroup, consumer: str) -> None:
    """Raises `TooManyInFlight` if it is for that that the consumer gets nothing."""
    if group.room(consumer) > 0:
        return
    settings = group.settings
    in_flight, most = group.book.consumers.get(consumer, 0), settings.max_in_flight_consumer
    if in_flight >= group.share(most):
        raise TooManyInFlight(
            f"{consumer!r} holds {in_flight} messages{_explain_limit(group, most)}"
            " (max_in_flight_consumer)"
        )
    raise TooManyInFlight(
        f"group {group.group_id!r} holds {group.book.in_flight} messages"
        f"{_explain_limit(group, settings.max_in_flight_group)} (max_in_flight_group)"
    )


def _explain_limit(group: QueueGroup, limit: int) -> str:
    share = group.share(limit)
    return f", {limit} allowed" if share == limit else f" here, {share} of {limit} allowed"
