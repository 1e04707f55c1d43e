"""How soon does a broker answer: new, with much on disk, and after kill -9 under load?

Ready is the first reply to a Kafka request, counted from the start of the process.  Served is when
the last message of every partition has been read and compared as well.
"""

import time
from typing import Any

import msgspec

from bench.brokers import Broker
from bench.clients import acknowledged
from bench.process import Failed
from bench.session import DURABLE, Section, Session, median_of


class Plan(msgspec.Struct, frozen=True):
    bytes_on_disk: int
    size: int
    partitions: int
    load_seconds: float


def run(session: Session, plan: Plan) -> Section:
    section = Section(
        "startup",
        "Start-up, in seconds",
        ["broker", "on disk", "ready", "CPU", "served", "contents"],
        notes=[
            "CPU: seconds that the process had used when it was ready.",
            "Apache Kafka's figure holds the start of its JVM, GoQueue's that of Python.",
        ],
    )
    for name in session.names:
        broker = session.broker(name)
        try:
            for figures in (
                _empty(session, broker),
                *_filled(session, broker, plan),
            ):
                section.figures.append(figures)
                section.rows.append(_row(figures))
        finally:
            broker.remove()
    return section


def _empty(session: Session, broker: Broker) -> dict[str, Any]:
    starts = []
    for _ in range(session.repeats):
        broker = session.broker(broker.name)
        broker.start()
        starts.append({"ready": broker.ready_seconds, "cpu": broker.usage().cpu_seconds})
        broker.remove()
    return _facts(broker, "nothing") | {
        "ready_seconds": median_of(starts, "ready"),
        "cpu_seconds": median_of(starts, "cpu"),
        "starts": starts,
    }


def _filled(session: Session, broker: Broker, plan: Plan) -> list[dict[str, Any]]:
    client = session.native
    messages = plan.bytes_on_disk // plan.size
    shape: dict[str, Any] = {"partitions": plan.partitions, "size": plan.size}
    session.tell(f"{broker.name}: writing {plan.bytes_on_disk / 1e9:g} GB")
    broker.start()
    client.create(broker.kafka, "filled", plan.partitions, {})
    client.produce(broker.kafka, "filled", messages=messages, settings={"acks": "1"}, **shape)
    broker.stop()
    session.settle()
    found = [_restart(session, broker, plan, "after a clean stop")]
    acked = _killed_under_load(session, broker, plan)
    session.settle()
    found.append(_restart(session, broker, plan, "after kill -9 under load"))
    session.tell(f"{broker.name}: comparing all of it")
    kept = client.contents(broker.kafka, "loaded", **shape)
    if any(there < promised for there, promised in zip(kept, acked, strict=True)):
        raise Failed(f"acknowledged {acked}, found {kept}")
    if sum(client.contents(broker.kafka, "filled", **shape)) != messages:
        raise Failed("messages are missing from what was there before")
    found[-1] |= {"acked": sum(acked), "found": sum(kept), "verified": messages + sum(kept)}
    broker.stop()
    return found


def _restart(session: Session, broker: Broker, plan: Plan, how: str) -> dict[str, Any]:
    session.tell(f"{broker.name}: starting {how}")
    broker.start()
    after_ready, cpu_seconds = time.monotonic(), broker.usage().cpu_seconds
    session.native.peek(broker.kafka, "filled", partitions=plan.partitions, size=plan.size)
    served = broker.ready_seconds + time.monotonic() - after_ready
    return _facts(broker, f"{plan.bytes_on_disk / 1e9:g} GB, {how}") | {
        "ready_seconds": broker.ready_seconds,
        "cpu_seconds": cpu_seconds,
        "served_seconds": served,
    }


def _killed_under_load(session: Session, broker: Broker, plan: Plan) -> list[int]:
    """What was acknowledged before the broker, then the client, were ended."""
    client = session.native
    client.create(broker.kafka, "loaded", plan.partitions, broker.topic_settings[DURABLE])
    producer = client.produce_until_stopped(
        broker.kafka,
        "loaded",
        partitions=plan.partitions,
        size=plan.size,
        settings={"acks": "all"},
    )
    time.sleep(plan.load_seconds)
    broker.kill()
    return acknowledged(producer)


def _facts(broker: Broker, on_disk: str) -> dict[str, Any]:
    return {"broker": broker.name, "version": broker.version, "on_disk": on_disk}


def _row(figures: dict[str, Any]) -> list[str]:
    served = figures.get("served_seconds")
    contents = ""
    if "acked" in figures:
        contents = (
            f"{figures['acked']:,} acked under load, {figures['found']:,} found, all compared"
        )
    return [
        f"{figures['broker']} {figures['version']}",
        figures["on_disk"],
        f"{figures['ready_seconds']:.2f}",
        f"{figures['cpu_seconds']:.2f}",
        "" if served is None else f"{served:.2f}",
        contents,
    ]
