"""What does a broker cost that does nothing: new, and with very many partitions?"""

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.brokers import Broker
from bench.session import Section, Session, mebibytes


class Plan(msgspec.Struct, frozen=True):
    topics: int
    partitions: int  # of each topic
    idle_seconds: float


def run(session: Session, plan: Plan) -> Section:
    total = plan.topics * plan.partitions
    section = Section(
        "partitions",
        f"Doing nothing, and {total:,} partitions; CPU over {plan.idle_seconds:g} s",
        ["broker", "state", "seconds", "RSS MiB", "open files", "threads", "CPU %"],
        notes=["seconds: to create all partitions, to write one message to each, to be ready."],
    )
    for name in session.names:
        with session.running(name) as (broker,):
            for state, seconds in _states(session, broker, plan):
                session.tell(f"{name}: {state}")
                figures = _idle(broker, plan, state, seconds)
                section.figures.append(figures)
                section.rows.append(_row(figures))
    return section


def _states(session: Session, broker: Broker, plan: Plan) -> Iterator[tuple[str, float]]:
    """A state, and the seconds it took; the next is entered when the caller has looked at it."""
    names = [f"many-{number}" for number in range(plan.topics)]
    client, partitions = session.native, plan.partitions
    yield "new", broker.ready_seconds
    created = [client.create(broker.kafka, name, partitions, {}) for name in names]
    yield "partitions created", sum(run.seconds for run in created)
    touched = [client.touch(broker.kafka, name, partitions) for name in names]
    yield "one message in each", sum(run.seconds for run in touched)
    for name in names:
        client.consume(broker.kafka, name, partitions=partitions, messages=partitions, size=100)
    yield "each read back and compared", 0.0
    broker.stop()
    broker.start()
    yield "started again", broker.ready_seconds


def _idle(broker: Broker, plan: Plan, state: str, seconds: float) -> dict[str, Any]:
    before = broker.usage()
    time.sleep(plan.idle_seconds)
    after = broker.usage()
    return {
        "broker": broker.name,
        "version": broker.version,
        "state": state,
        "seconds": seconds,
        "resident_bytes": after.resident_bytes,
        "resident_bytes_peak": after.resident_bytes_peak,
        "open_files": after.open_files,
        "threads": after.threads,
        "cpu_percent": (after.cpu_seconds - before.cpu_seconds) / plan.idle_seconds * 100,
    }


def _row(figures: dict[str, Any]) -> list[str]:
    return [
        f"{figures['broker']} {figures['version']}",
        figures["state"],
        f"{figures['seconds']:.2f}" if figures["seconds"] else "",
        mebibytes(figures["resident_bytes"]),
        f"{figures['open_files']:,}",
        str(figures["threads"]),
        f"{figures['cpu_percent']:.1f}",
    ]
