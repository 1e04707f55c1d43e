"""Members of groups, of every client library, behind one face.

A member polls in a thread of its own and writes what happens to it into a journal that all members
of a test share, in the order in which it happened.  Run as a program, a member can be killed:

    python -m tests.conformance.group_members KIND ADDRESS GROUP TOPIC
"""

import asyncio
import contextlib
import inspect
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import ConsumerRebalanceListener as PlainRebalanceListener
from kafka import KafkaConsumer
from kafka import TopicPartition as PlainTopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError as PlainKafkaError

from tests.conformance.group_server import HEARTBEAT_MS, SESSION_MS

POLL_S = 0.05
PATIENT_POLL_MS = 500  # kafka-python begins a join anew when a poll ends before it is through
CALL_SECONDS_MAX = 20.0


class Event(NamedTuple):
    kind: str  # read, committed, assigned, revoked
    member: str
    partition: int
    offset: int = -1
    value: bytes = b""


class Journal:
    """What happened to all members, in order."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()

    def write(self, *events: Event) -> None:
        with self._lock:
            self._events.extend(events)

    def events(self, kind: str, member: str | None = None) -> list[Event]:
        with self._lock:
            return [
                event
                for event in self._events
                if event.kind == kind and member in (None, event.member)
            ]

    def values(self) -> set[int]:
        """Which messages were read by anybody."""
        return {int(event.value) for event in self.events("read")}

    def check_nobody_reads_below_a_commit(self) -> None:
        floor: dict[int, int] = {}
        for event in list(self._events):
            if event.kind == "committed":
                floor[event.partition] = max(event.offset, floor.get(event.partition, 0))
            elif event.kind == "read":
                assert event.offset >= floor.get(event.partition, 0), (event, floor)

    def check_nothing_is_skipped(self) -> None:
        """Whoever reads on in a partition begins no later than the others have come."""
        following: dict[int, int] = {}
        for event in self.events("read"):
            assert event.offset <= following.get(event.partition, 0), (event, following)
            after = max(event.offset + 1, following.get(event.partition, 0))
            following[event.partition] = after


class Member:
    """A consumer in a thread."""

    knows_cooperative = False

    def __init__(
        self,
        address: str,
        group: str,
        topics: Iterable[str],
        journal: Journal,
        *,
        name: str = "a",
        instance: str | None = None,
        commits: bool = True,
        cooperative: bool = False,
        regex: str | None = None,
    ) -> None:
        self.address = address
        self.group = group
        self.topics = list(topics)
        self.journal = journal
        self.name = name
        self.instance = instance
        self.commits = commits
        self.cooperative = cooperative
        self.regex = regex
        self.assigned: frozenset[int] = frozenset()
        self._calls: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = (
            queue.SimpleQueue()
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Stop polling and leave, as the library does when it is closed."""
        self._stopping.set()
        self._thread.join(CALL_SECONDS_MAX)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what a test may ask for -----------------------------------------------------------------

    def call(self, action: Callable[[Any], Any]) -> Any:
        """The result of `action(consumer)`, done between two polls."""
        result: Future[Any] = Future()
        self._calls.put((action, result))
        return result.result(CALL_SECONDS_MAX)

    def seek(self, partition: int, offset: int) -> None:
        raise NotImplementedError

    def pause(self, partition: int) -> None:
        raise NotImplementedError

    def resume(self, partition: int) -> None:
        raise NotImplementedError

    def commit(self, partition: int, offset: int) -> None:
        """Commit one position, and wait for the answer."""
        raise NotImplementedError

    def commit_soon(self) -> None:
        """Commit what was read, without waiting."""
        raise NotImplementedError

    def committed(self, partition: int) -> int | None:
        raise NotImplementedError

    # --- for the threads -------------------------------------------------------------------------

    def _take_calls(self, consumer: Any) -> list[tuple[Any, Future[Any]]]:
        """Do the calls that wait; gives those whose result has to be awaited."""
        unfinished = []
        while not self._calls.empty():
            action, result = self._calls.get()
            try:
                value = action(consumer)
            except Exception as error:
                result.set_exception(error)
                continue
            if inspect.isawaitable(value):
                unfinished.append((value, result))
            else:
                result.set_result(value)
        return unfinished

    def _note(self, kind: str, partitions: Iterable[int]) -> None:
        self.journal.write(*(Event(kind, self.name, partition) for partition in partitions))

    def _note_read(self, partition: int, offset: int, value: bytes) -> None:
        self.journal.write(Event("read", self.name, partition, offset, value))

    def _note_committed(self, offsets: dict[int, int]) -> None:
        events = [Event("committed", self.name, *position) for position in offsets.items()]
        self.journal.write(*events)


# --- confluent-kafka ------------------------------------------------------------------------------


class ConfluentMember(Member):
    protocol = "classic"
    knows_cooperative = True

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.address,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 500,
        }
        if self.instance:
            settings["group.instance.id"] = self.instance
        if self.protocol == "classic":
            settings["session.timeout.ms"] = SESSION_MS
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
            if self.cooperative:
                settings["partition.assignment.strategy"] = "cooperative-sticky"
        return settings

    def _run(self) -> None:
        consumer = Consumer(self._settings(), logger=_silent())
        topics = [self.regex] if self.regex else self.topics
        consumer.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke)
        try:
            while not self._stopping.is_set():
                self._take_calls(consumer)
                self._poll(consumer)
                self.assigned = frozenset(part.partition for part in consumer.assignment())
        finally:
            consumer.close()

    def _poll(self, consumer: Consumer) -> None:
        messages = [found for found in consumer.consume(50, POLL_S) if not found.error()]
        for message in messages:
            self._note_read(message.partition(), message.offset(), message.value())
        if messages and self.commits:
            with contextlib.suppress(KafkaException):
                done = consumer.commit(asynchronous=False)
                self._note_committed({part.partition: part.offset for part in done})

    def _assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("assigned", (part.partition for part in partitions))

    def _revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("revoked", (part.partition for part in partitions))

    def seek(self, partition: int, offset: int) -> None:
        place = TopicPartition(self.topics[0], partition, offset)
        self.call(lambda consumer: consumer.seek(place))

    def pause(self, partition: int) -> None:
        self.call(lambda consumer: consumer.pause([TopicPartition(self.topics[0], partition)]))

    def resume(self, partition: int) -> None:
        self.call(lambda consumer: consumer.resume([TopicPartition(self.topics[0], partition)]))

    def commit(self, partition: int, offset: int) -> None:
        place = TopicPartition(self.topics[0], partition, offset)
        self.call(lambda consumer: consumer.commit(offsets=[place], asynchronous=False))

    def commit_soon(self) -> None:
        self.call(lambda consumer: consumer.commit(asynchronous=True))

    def committed(self, partition: int) -> int | None:
        place = TopicPartition(self.topics[0], partition)
        (found,) = self.call(lambda consumer: consumer.committed([place]))
        return None if found.offset < 0 else int(found.offset)


class ConfluentConsumerMember(ConfluentMember):
    protocol = "consumer"


def _silent() -> Any:
    import logging

    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.CRITICAL)
    return logger


# --- kafka-python ---------------------------------------------------------------------------------


class KafkaPythonMember(Member):
    knows_cooperative = True

    def _run(self) -> None:
        assignor = CooperativeStickyAssignor if self.cooperative else RangePartitionAssignor
        consumer = KafkaConsumer(
            bootstrap_servers=self.address,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=10_000,
            metadata_max_age_ms=500,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=200,
            partition_assignment_strategy=[assignor],
        )
        consumer.subscribe(
            topics=[] if self.regex else self.topics,
            pattern=self.regex,
            listener=_PlainListener(self),
        )
        try:
            while not self._stopping.is_set():
                self._take_calls(consumer)
                self._poll(consumer)
                self.assigned = frozenset(part.partition for part in consumer.assignment())
        finally:
            consumer.close(autocommit=False)

    def _poll(self, consumer: KafkaConsumer) -> None:
        try:
            found = consumer.poll(timeout_ms=PATIENT_POLL_MS, max_records=50)
        except PlainKafkaError:  # the broker is away: this client tells, and goes on if polled
            return
        for part, messages in found.items():
            for message in messages:
                self._note_read(part.partition, message.offset, message.value)
        if found and self.commits:
            ends = {part.partition: some[-1].offset + 1 for part, some in found.items()}
            with contextlib.suppress(PlainKafkaError):
                consumer.commit()
                self._note_committed(ends)

    def _place(self, partition: int) -> PlainTopicPartition:
        return PlainTopicPartition(self.topics[0], partition)

    def seek(self, partition: int, offset: int) -> None:
        self.call(lambda consumer: consumer.seek(self._place(partition), offset))

    def pause(self, partition: int) -> None:
        self.call(lambda consumer: consumer.pause(self._place(partition)))

    def resume(self, partition: int) -> None:
        self.call(lambda consumer: consumer.resume(self._place(partition)))

    def commit(self, partition: int, offset: int) -> None:
        from kafka.structs import OffsetAndMetadata

        position = {self._place(partition): OffsetAndMetadata(offset, "", -1)}
        self.call(lambda consumer: consumer.commit(position))

    def commit_soon(self) -> None:
        self.call(lambda consumer: bool(consumer.commit_async()))

    def committed(self, partition: int) -> int | None:
        found = self.call(lambda consumer: consumer.committed(self._place(partition)))
        return None if found is None else int(found)


class _PlainListener(PlainRebalanceListener):  # type: ignore[misc]  # the library has no types
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member._note("assigned", (part.partition for part in assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member._note("revoked", (part.partition for part in revoked))


# --- aiokafka -------------------------------------------------------------------------------------


class AioKafkaMember(Member):
    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=500,
            fetch_max_wait_ms=100,
        )
        consumer.subscribe(
            topics=() if self.regex else self.topics,
            pattern=self.regex,
            listener=_AioListener(self),
        )
        await consumer.start()
        try:
            while not self._stopping.is_set():
                for value, result in self._take_calls(consumer):
                    result.set_result(await value)
                await self._poll(consumer)
                self.assigned = frozenset(part.partition for part in consumer.assignment())
        finally:
            await consumer.stop()

    async def _poll(self, consumer: AIOKafkaConsumer) -> None:
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=50)
        for part, messages in found.items():
            for message in messages:
                self._note_read(part.partition, message.offset, message.value)
        if found and self.commits:
            ends = {part.partition: some[-1].offset + 1 for part, some in found.items()}
            with contextlib.suppress(AioKafkaError):
                await consumer.commit()
                self._note_committed(ends)

    def _place(self, partition: int) -> AioTopicPartition:
        return AioTopicPartition(self.topics[0], partition)

    def seek(self, partition: int, offset: int) -> None:
        self.call(lambda consumer: consumer.seek(self._place(partition), offset))

    def pause(self, partition: int) -> None:
        self.call(lambda consumer: consumer.pause(self._place(partition)))

    def resume(self, partition: int) -> None:
        self.call(lambda consumer: consumer.resume(self._place(partition)))

    def commit(self, partition: int, offset: int) -> None:
        self.call(lambda consumer: consumer.commit({self._place(partition): offset}))

    def commit_soon(self) -> None:
        self.call(lambda consumer: consumer.commit())

    def committed(self, partition: int) -> int | None:
        found = self.call(lambda consumer: consumer.committed(self._place(partition)))
        return None if found is None else int(found)


class _AioListener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._member._note("assigned", (part.partition for part in assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._member._note("revoked", (part.partition for part in revoked))


KINDS: dict[str, type[Member]] = {
    "confluent-classic": ConfluentMember,
    "confluent-consumer": ConfluentConsumerMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AioKafkaMember,
}


def main(kind: str, address: str, group: str, topic: str) -> None:
    """A member that says what it is assigned, until it is killed."""
    member = KINDS[kind](address, group, [topic], Journal())
    idle = threading.Event()
    while True:
        idle.wait(POLL_S)
        print(*sorted(member.assigned), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
