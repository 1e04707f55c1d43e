"""The transactional producers and read-committed consumers of three clients, as one."""

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka import TopicPartition

WAIT_S = 20.0
_SILENT = logging.getLogger("librdkafka")  # it tells about every lost connection
_SILENT.setLevel(logging.CRITICAL)


class Fenced(Exception):
    """A newer producer has taken over: said by each client in its own way."""


class Producer(Protocol):
    def start(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int = 0) -> None: ...

    def send_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


# --- confluent-kafka ----------------------------------------------------------------------------


class ConfluentProducer:
    def __init__(self, address: str, name: str, timeout_ms: int = 60_000) -> None:
        self._address = address
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 1,
            },
            logger=_SILENT,
        )

    def start(self) -> None:
        self._producer.init_transactions(WAIT_S)

    def begin(self) -> None:
        _or_fenced(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        _or_fenced(lambda: self._producer.produce(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._address, "group.id": group}, logger=_SILENT
        )
        try:
            self._producer.send_offsets_to_transaction(
                [TopicPartition(topic, partition, offset)],
                consumer.consumer_group_metadata(),
                WAIT_S,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        _or_fenced(lambda: self._producer.commit_transaction(WAIT_S))

    def abort(self) -> None:
        _or_fenced(lambda: self._producer.abort_transaction(WAIT_S))

    def close(self) -> None:
        self._producer.purge()


def _or_fenced(act: Any) -> None:
    try:
        act()
    except confluent_kafka.KafkaException as error:
        if error.args[0].fatal():
            raise Fenced(str(error)) from error
        raise


# --- kafka-python -------------------------------------------------------------------------------


class KafkaPythonProducer:
    def __init__(self, address: str, name: str, timeout_ms: int = 60_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=address, transactional_id=name, transaction_timeout_ms=timeout_ms
        )
        self._sent: list[Any] = []

    def start(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._sent.append(self._producer.send(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

        place = kafka.TopicPartition(topic, partition)
        self._producer.send_offsets_to_transaction(
            {place: OffsetAndMetadata(offset, "", -1)}, ConsumerGroupMetadata(group, -1, "", None)
        )

    def commit(self) -> None:
        self._or_fenced(self._producer.commit_transaction)

    def abort(self) -> None:
        self._or_fenced(self._producer.abort_transaction)

    def _or_fenced(self, act: Any) -> None:
        sent, self._sent = self._sent, []
        try:
            for each in sent:
                each.get(WAIT_S)
            act()
        except kafka.errors.KafkaError as error:
            if "fenced" in repr(error).lower() or "epoch" in repr(error).lower():
                raise Fenced(str(error)) from error
            raise

    def close(self) -> None:
        self._producer.close(timeout=5)


# --- aiokafka -----------------------------------------------------------------------------------


class AiokafkaProducer:
    """In a thread with an event loop of its own, so that it can be used like the others."""

    def __init__(self, address: str, name: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._producer = self._run(_made(address, name, timeout_ms))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_S)
        except (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch) as error:
            raise Fenced(str(error)) from error

    def start(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        place = aiokafka.TopicPartition(topic, partition)
        self._run(self._producer.send_offsets_to_transaction({place: offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._producer.stop(), self._loop)
        time.sleep(0.1)  # rule-ok: a fenced one does not answer
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


async def _made(address: str, name: str, timeout_ms: int) -> Any:
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, transactional_id=name, transaction_timeout_ms=timeout_ms
    )


PRODUCERS: dict[str, Any] = {
    "confluent": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AiokafkaProducer,
}


# --- reading ------------------------------------------------------------------------------------


def read_confluent(address: str, topic: str, partitions: int, level: str) -> list[bytes]:
    """Everything that is there, up to where a reader of this level may see."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "isolation.level": level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        },
        logger=_SILENT,
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return found


def read_kafka_python(address: str, topic: str, partitions: int, level: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, isolation_level=level, auto_offset_reset="earliest"
    )
    places = [kafka.TopicPartition(topic, index) for index in range(partitions)]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while any(consumer.position(each) < ends[each] for each in places):
        for records in consumer.poll(timeout_ms=200).values():
            found += [record.value for record in records]
        assert time.monotonic() < deadline
    consumer.close()
    return found


def read_aiokafka(address: str, topic: str, partitions: int, level: str) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, isolation_level=level)
        await consumer.start()
        try:
            places = [aiokafka.TopicPartition(topic, index) for index in range(partitions)]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            ends = await consumer.end_offsets(places)
            found: list[bytes] = []
            while True:
                positions = [await consumer.position(each) for each in places]
                if all(at >= ends[each] for at, each in zip(positions, places, strict=True)):
                    return found
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.value for record in records]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), WAIT_S))


READERS: dict[str, Any] = {
    "confluent": read_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
}


def committed_offset(address: str, group: str, places: Sequence[tuple[str, int]]) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": group}, logger=_SILENT
    )
    try:
        found = consumer.committed([TopicPartition(*each) for each in places], WAIT_S)
        return [each.offset for each in found]
    finally:
        consumer.close()
