"""Read, process, write, in transactions: numbers are moved from one topic to two others, with the
offsets that were read.  Some transactions are aborted on purpose.

Each number ends in both topics exactly once, whatever happens to the nodes meanwhile.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.chaos.cluster import Cluster
from tests.chaos.load.load import Load
from tests.sim.transaction_history import End, History, Seen, Written

TARGETS: Final = ("moved", "audit")
PARTITIONS: Final = 3  # of each target
GROUP: Final = "movers"
ABORTED: Final = 0.15
MESSAGES_MAX: Final = 200
ANSWER_S: Final = 20.0
RETURN_S: Final = 30.0  # from a call that takes ANSWER_S at most

Value = tuple[int, int, int]  # the transaction, and the place of what was read


def value_of(transaction: int, read: Message, target: str) -> bytes:
    return b"%d:%d:%d:%s" % (
        transaction,
        read.partition() or 0,
        read.offset() or 0,
        target.encode(),
    )


def source_of(value: bytes) -> tuple[int, int, bytes]:
    """The partition and offset that were read, and the target."""
    _, partition, offset, target = value.split(b":")
    return int(partition), int(offset), target


class SharedHistory:
    """One history of all movers and readers."""

    def __init__(self) -> None:
        self.history = History()
        self._lock = threading.Lock()

    def begin(self, producer: str) -> Written:
        with self._lock:
            return self.history.begin(producer)

    def see(self, seen: Seen) -> None:
        with self._lock:
            self.history.seen.append(seen)


class Mover(Load):
    """A member of the group that reads; starts again with a new producer when it must."""

    def __init__(
        self, number: int, cluster: Cluster, source: str, shared: SharedHistory, histories: Path
    ) -> None:
        super().__init__(f"mover-{number}", histories)
        self._cluster = cluster
        self._shared = shared
        self._chance = random.Random(number)
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([source])
        self._producer: Producer | None = None
        self.problems: Counter[str] = Counter()

    def step(self) -> None:
        try:
            producer = self._producer or self._initialized()
            found = self._consumer.consume(MESSAGES_MAX, 0.2)
            read = [each for each in found if each.error() is None]
            if read:
                self._move(producer, read)
        except KafkaException as error:
            self._begin_again(error.args[0], keeps_producer=False)

    def _initialized(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 15_000,
                "reconnect.backoff.max.ms": 500,
                "socket.timeout.ms": 3_000,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        producer.init_transactions(ANSWER_S)
        self._producer = producer
        return producer

    def _move(self, producer: Producer, read: list[Message]) -> None:
        producer.begin_transaction()
        written = self._shared.begin(self.name)
        self._write(producer, written, read)
        try:
            producer.flush(ANSWER_S)
            positions = _positions(read)
            metadata = self._consumer.consumer_group_metadata()
            within(
                RETURN_S,
                lambda: producer.send_offsets_to_transaction(positions, metadata, ANSWER_S),
            )
            if self._chance.random() < ABORTED:
                self._abort(producer, written)
                self._rewind()
                return
            self._commit(producer, written)
        except KafkaException as error:
            self._recover(producer, written, error.args[0])
        finally:
            self._note(written)

    def _write(self, producer: Producer, written: Written, read: list[Message]) -> None:
        for message in read:
            for target in TARGETS:
                value = value_of(written.number, message, target)
                partition = self._chance.randrange(PARTITIONS)
                written.writes[value] = (target, partition)
                producer.produce(
                    target,
                    value,
                    partition=partition,
                    on_delivery=lambda error, told, value=value: _answered(
                        written, value, error, told
                    ),
                )

    def _commit(self, producer: Producer, written: Written) -> None:
        written.commit_asked_at = time.monotonic()
        while True:
            try:
                producer.commit_transaction(ANSWER_S)
            except KafkaException as error:
                if not error.args[0].retriable() or self.is_ending:
                    raise
                self.problems[error.args[0].name()] += 1
            else:
                written.end = End.COMMITTED
                return

    def _abort(self, producer: Producer, written: Written) -> None:
        producer.abort_transaction(ANSWER_S)
        written.end = End.ABORTED

    def _recover(self, producer: Producer, written: Written, error: KafkaError) -> None:
        """A transaction that can be aborted is; else another producer takes over."""
        if error.txn_requires_abort():
            try:
                self._abort(producer, written)
            except KafkaException as another:
                self._begin_again(another.args[0], keeps_producer=False)
            else:
                self._begin_again(error, keeps_producer=True)
        else:
            self._begin_again(error, keeps_producer=False)

    def _begin_again(self, error: KafkaError, *, keeps_producer: bool) -> None:
        self.problems[error.name()] += 1
        self.file.note("problem", problem=str(error), keeps_producer=keeps_producer)
        if not keeps_producer:
            self._producer = None
        self._rewind()

    def _rewind(self) -> None:
        """To what is committed: an aborted transaction's messages are read again."""
        while not self.is_ending:
            assigned = self._consumer.assignment()
            if not assigned:
                return
            try:
                for each in self._consumer.committed(assigned, ANSWER_S):
                    offset = each.offset if each.offset >= 0 else OFFSET_BEGINNING
                    self._consumer.seek(TopicPartition(each.topic, each.partition, offset))
            except KafkaException as error:
                self.problems[error.args[0].name()] += 1
                self._consumer.poll(0.2)  # lets a rebalance go on; what it gives is read again
            else:
                return

    def _note(self, written: Written) -> None:
        self.file.note(
            "transaction",
            number=written.number,
            end=written.end.name,
            commit_asked_at=written.commit_asked_at,
            writes={value.decode(): place for value, place in written.writes.items()},
            acked={value.decode(): offset for value, offset in written.acked.items()},
        )

    def close(self) -> None:
        self._consumer.close()
        self.file.note("problems", **self.problems)


def within(seconds: float, call: Callable[[], None]) -> None:
    """Raises `KafkaException` when it has not returned by then; its client can be used no more.

    librdkafka's `send_offsets_to_transaction` never returns when the group's coordinator leaves
    the metadata at the wrong moment: it overlooks its own time-out (its issues 5456, 5511).
    """
    raised: list[KafkaException] = []

    def run() -> None:
        try:
            call()
        except KafkaException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the client hangs"))
    for each in raised:
        raise each


def _answered(written: Written, value: bytes, error: KafkaError | None, told: Message) -> None:
    offset = told.offset()
    if error is None and offset is not None and offset >= 0:  # see `Witness.acked_somewhere`
        written.acked[value] = offset


def _positions(read: list[Message]) -> list[TopicPartition]:
    ends: dict[tuple[str, int], int] = {}
    for each in read:
        place = each.topic() or "", each.partition() or 0
        ends[place] = max(ends.get(place, 0), (each.offset() or 0) + 1)
    return [TopicPartition(topic, index, end) for (topic, index), end in ends.items()]


class CommittedReader(Load):
    """Sees what is committed in the targets, from their beginning."""

    def __init__(self, cluster: Cluster, shared: SharedHistory, histories: Path) -> None:
        super().__init__("committed-reader", histories)
        self._shared = shared
        self._consumer = committed_consumer(cluster)
        self.count = 0

    def step(self) -> None:
        for message in self._consumer.consume(200, 0.2):
            if message.error() is None:
                seen = seen_in(message, "reader")
                self._shared.see(seen)
                self.file.note(
                    "seen", place=seen.place, offset=seen.offset, value=seen.value.decode()
                )
                self.count += 1

    def close(self) -> None:
        self._consumer.close()


def committed_consumer(cluster: Cluster) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 500,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign(
        [
            TopicPartition(target, index, OFFSET_BEGINNING)
            for target in TARGETS
            for index in range(PARTITIONS)
        ]
    )
    return consumer


def seen_in(message: Message, reader: str) -> Seen:
    place = message.topic() or "", message.partition() or 0
    return Seen(reader, time.monotonic(), place, message.offset() or 0, message.value() or b"")


def read_all(cluster: Cluster, within_s: float) -> list[Seen]:
    """All that is committed in the targets, when nothing is written any more."""
    consumer, found = committed_consumer(cluster), list[Seen]()
    missing = {(target, index) for target in TARGETS for index in range(PARTITIONS)}
    deadline = time.monotonic() + within_s
    try:
        while missing:
            assert time.monotonic() < deadline, f"no end of {sorted(missing)}: a transaction hangs?"
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    found.append(seen_in(message, "final"))
                elif error.code() == KafkaError._PARTITION_EOF:
                    missing.discard((message.topic() or "", message.partition() or 0))
    finally:
        consumer.close()
    return found


def check_exactly_once(final: list[Seen], acked: list[dict[int, int]]) -> None:
    """Every message of the source is in each target once; `acked`: offsets of each partition."""
    count = Counter(source_of(seen.value) for seen in final)
    twice = [source for source, times in count.items() if times > 1]
    assert not twice, f"moved twice: {twice[:5]}"
    expected = {
        (partition, offset, target.encode())
        for partition, offsets in enumerate(acked)
        for offset in offsets
        for target in TARGETS
    }
    missing = sorted(expected - count.keys())
    assert not missing, f"{len(missing)} are not moved: {missing[:5]}"
