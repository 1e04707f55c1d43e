"""Consumes numbers, produces them in brackets, exactly once; killed at any moment.

python transform_worker.py BOOTSTRAP SOURCE TARGET GROUP NAME
"""

import logging
import sys

from confluent_kafka import Consumer, KafkaException, Producer

_SILENT = logging.getLogger("librdkafka")


def main(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    while True:
        try:
            _work(bootstrap, source, target, group, name)
        except KafkaException as error:
            print("starts again:", error, flush=True)


def _work(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": name,
            "session.timeout.ms": 6000,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        },
        logger=_SILENT,
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            "linger.ms": 1,
            # librdkafka 2.16.0 hangs otherwise: tests/conformance/test_transaction_restart.py
            "metadata.recovery.strategy": "none",
        },
        logger=_SILENT,
    )
    try:
        producer.init_transactions(30)
        consumer.subscribe([source])
        while True:
            _one_batch(consumer, producer, target)
    finally:
        consumer.close()


def _one_batch(consumer: Consumer, producer: Producer, target: str) -> None:
    messages = [each for each in consumer.consume(20, 0.2) if each.error() is None]
    if not messages:
        return
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(target, b"<%s>" % message.value(), partition=message.partition())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 10
        )
        producer.commit_transaction(10)
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            producer.abort_transaction(10)
        raise  # the position in memory is ahead of what is committed: start again


if __name__ == "__main__":
    main(*sys.argv[1:])
