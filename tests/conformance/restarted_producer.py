"""A transactional producer of librdkafka that lives through a restart of its only broker.

    python restarted_producer.py ADDRESS TOPIC GROUP [SETTING=VALUE ...]

Commits a transaction with an offset, prints "committed 1", waits for a line (the broker was
restarted meanwhile) and commits another.  In a process of its own, since one that hangs ignores its
time-outs.
"""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

WAIT_S = 30.0


def main(address: str, topic: str, group: str, *settings: str) -> None:
    known = {
        "bootstrap.servers": address,
        "reconnect.backoff.max.ms": "200",
        **dict(each.split("=", 1) for each in settings),
    }
    producer = Producer({**known, "transactional.id": group, "linger.ms": 1})
    consumer = Consumer({**known, "group.id": group})
    producer.init_transactions(WAIT_S)
    for number in (1, 2):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        position = TopicPartition(topic, 0, number)
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([position], metadata, WAIT_S)
        producer.commit_transaction(WAIT_S)
        print("committed", number, flush=True)
        if number == 1:
            sys.stdin.readline()
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
