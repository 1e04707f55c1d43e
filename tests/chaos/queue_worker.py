"""Takes numbers from a queue, publishes them in brackets and acks them, exactly once; killed at
any moment.

python queue_worker.py URL SOURCE TARGET GROUP NAME
"""

import sys
import time

from goqueue.client import Client, Delivery, Message
from goqueue.client.errors import ClientError

TIMEOUT_MS = 5_000


def main(url: str, source: str, target: str, group: str, name: str) -> None:
    while True:
        try:
            with Client(url, retries=1) as client:
                _work(client, source, target, group, name)
        except ClientError as error:
            print("starts again:", error, flush=True)
            time.sleep(0.2)  # rule-ok: the server is being started


def _work(client: Client, source: str, target: str, group: str, name: str) -> None:
    producer = client.transactional(name, timeout_ms=TIMEOUT_MS)
    while True:
        jobs = client.receive(source, group, consumer=name, max_messages=20, wait_ms=500)
        if jobs:
            with producer.transaction() as transaction:
                transaction.publish(target, [_result(each) for each in jobs])
                transaction.ack(*jobs)


def _result(job: Delivery) -> Message:
    return Message(b"<%s>" % (job.value or b""), key=job.value)


if __name__ == "__main__":
    main(*sys.argv[1:])
