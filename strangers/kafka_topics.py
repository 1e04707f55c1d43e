"""Stands in for `kafka-topics.sh`, with which librdkafka's tests make, change and delete topics.

It takes the options that they use, so that the suite needs no Apache Kafka.
"""

import argparse
import sys

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

TIMEOUT_SECONDS = 30


def main() -> int:
    options = _options()
    admin = AdminClient({"bootstrap.servers": options.bootstrap_server})
    if options.create:
        settings = dict(text.split("=", 1) for text in options.config)
        topic = NewTopic(options.topic, options.partitions or -1, config=settings)
        replies = admin.create_topics([topic])
    elif options.alter:
        replies = admin.create_partitions([NewPartitions(options.topic, options.partitions)])
    else:
        replies = admin.delete_topics([options.topic])
    for reply in replies.values():
        reply.result(TIMEOUT_SECONDS)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("kafka-topics", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap-server", required=True)
    verb = parser.add_mutually_exclusive_group(required=True)
    for name in ("--create", "--alter", "--delete"):
        verb.add_argument(name, action="store_true")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--replication-factor", type=int)
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
