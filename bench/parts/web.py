"""How fast does HTTP take messages, in batches of 1,000?  They are read back through Kafka.

Each connection is kept alive, sends its next request when it has the reply to the last, and has a
partition to itself, so that the order in which its messages must be found is known.
"""

import asyncio
import os
import resource
import time
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench import payload
from bench.brokers import Broker
from bench.process import Failed
from bench.session import DURABLE, Section, Session, Watch, disturbed, mebibytes, median_of

REPLY_SECONDS_MAX = 60.0


class Plan(msgspec.Struct, frozen=True):
    messages: int
    batch: int
    size: int
    connections: list[int]


def run(session: Session, plan: Plan) -> Section:
    section = Section(
        "http",
        f"HTTP publish, {plan.messages:,} messages of {plan.size} B in batches of {plan.batch:,},"
        f" fsync, median of {session.repeats}",
        ["connections", "msg/s", "MB/s", "CPU s/M", "client cores", "peak RSS MiB"],
        notes=[
            "Every reply is 200 and has a result for each message; contents read through Kafka."
        ],
    )
    with session.running("goqueue") as (broker,):
        _pass(session, broker, plan, min(plan.connections), plan.messages // 10)
        for connections in plan.connections:
            session.tell(f"goqueue: HTTP, {connections} connection(s)")
            (found,) = session.in_turns(
                [partial(_pass, session, broker, plan, connections, plan.messages)]
            )
            section.figures += found
            section.rows.append(_row(connections, found))
    section.notes += disturbed(section.figures)
    return section


def _pass(
    session: Session, broker: Broker, plan: Plan, connections: int, messages: int
) -> dict[str, Any]:
    topic = f"http-{os.urandom(4).hex()}"
    rounds = max(1, messages // connections // plan.batch)
    messages = rounds * connections * plan.batch
    session.client.create(broker.kafka, topic, connections, broker.topic_settings[DURABLE])
    requests = [
        [_request(broker.http, topic, place, number, plan) for number in range(rounds)]
        for place in range(connections)
    ]
    before, own, watch = broker.usage(), _own_cpu(), Watch()
    started = time.monotonic()
    try:
        asyncio.run(_send_all(broker.http, requests, plan.batch))
    except* (Failed, OSError, asyncio.IncompleteReadError, TimeoutError) as problems:
        raise Failed(f"{problems.exceptions[0]}\n{broker.log_tail()}") from problems
    seconds = time.monotonic() - started
    after, client_cpu = broker.usage(), _own_cpu() - own
    cpu = after.cpu_seconds - before.cpu_seconds
    others = watch.others(cpu + client_cpu)
    session.client.consume(
        broker.kafka, topic, partitions=connections, messages=messages, size=plan.size
    )
    session.client.delete(broker.kafka, topic)
    return {
        "broker": broker.name,
        "version": broker.version,
        "connections": connections,
        "messages": messages,
        "batch": plan.batch,
        "size": plan.size,
        "verified": True,
        "seconds": seconds,
        "messages_per_second": messages / seconds,
        "megabytes_per_second": messages / seconds * plan.size / 1e6,
        "broker_cpu_seconds_per_million": cpu / messages * 1e6,
        "client_cores": client_cpu / seconds,
        "other_cores": others,
        "resident_bytes_peak": after.resident_bytes_peak,
    }


def _request(http: str, topic: str, partition: int, number: int, plan: Plan) -> bytes:
    """Made before the clock starts: the client's JSON is not what is measured."""
    first = number * plan.batch
    body = msgspec.json.encode(
        {
            "messages": [
                {
                    "value": payload.message(partition, first + index, plan.size).decode(),
                    "partition": partition,
                }
                for index in range(plan.batch)
            ]
        }
    )
    head = (
        f"POST /topics/{topic}/messages HTTP/1.1\r\nHost: {urlsplit(http).netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _send_all(http: str, requests: list[list[bytes]], batch: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for mine in requests:
            tasks.create_task(_send(http, mine, batch))


async def _send(http: str, requests: list[bytes], batch: int) -> None:
    address = urlsplit(http)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 22)
    try:
        for request in requests:
            writer.write(request)
            async with asyncio.timeout(REPLY_SECONDS_MAX):
                body = await _reply(reader)
            results = msgspec.json.decode(body)["results"]
            if len(results) != batch or any("error" in each for each in results):
                raise Failed(f"{len(results)} results: {results[0]}")
    finally:
        writer.close()


async def _reply(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = head.split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:] if line)
    body = await reader.readexactly(int(fields["content-length"]))
    if not lines[0].startswith("http/1.1 200"):
        raise Failed(f"{lines[0]}: {body[:500]!r}")
    return body


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _row(connections: int, found: list[dict[str, Any]]) -> list[str]:
    return [
        str(connections),
        f"{median_of(found, 'messages_per_second'):,.0f}",
        f"{median_of(found, 'megabytes_per_second'):,.0f}",
        f"{median_of(found, 'broker_cpu_seconds_per_million'):.2f}",
        f"{median_of(found, 'client_cores'):.2f}",
        mebibytes(max(each["resident_bytes_peak"] for each in found)),
    ]
