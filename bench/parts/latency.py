"""How long does a message take at a steady 20,000 a second, when an ack means on disk?

Open loop: message i is due at start + i / rate whether or not earlier ones were slow, and its time
counts from then.  So a stall shows in every message that it held up.
"""

import os
from functools import partial
from typing import Any

import msgspec

from bench.brokers import Broker
from bench.session import ACKS_OF_MODE, Measure, Section, Session, Watch, disturbed, middle


class Plan(msgspec.Struct, frozen=True):
    rate: int
    seconds: float
    warm_up_seconds: float
    size: int
    partitions: int
    mode: str
    client_settings: list[dict[str, str]]
    is_idempotent: bool = False  # for several nodes: whose leaders may move meanwhile


def run(session: Session, plan: Plan) -> Section:
    section = Section(
        "latency",
        f"Latency in ms at {plan.rate:,} msg/s of {plan.size} B, {plan.mode}, the median run of"
        f" {session.repeats} by p99",
        ["client", "broker"]
        + [f"publish {point}" for point in ("p50", "p99", "p99.9", "max")]
        + [f"end to end {point}" for point in ("p50", "p99", "p99.9", "max")]
        + ["CPU s/M"],
        notes=[
            "publish: due to acknowledged; end to end: due to received by a consumer that waits.",
            "Open loop: a message that the client sent late counts from when it was due.",
        ],
    )
    with session.running(*session.names) as brokers:
        for settings in plan.client_settings:
            session.tell(f"{plan.rate:,} msg/s, {_text(settings)}")
            measures: list[Measure] = [
                partial(_pass, session, broker, plan, settings) for broker in brokers
            ]
            for broker, found in zip(brokers, session.in_turns(measures), strict=True):
                section.figures += found
                section.rows.append(_row(broker, settings, middle(found, "publish_p99")))
    section.notes += disturbed(section.figures)
    return section


def _pass(session: Session, broker: Broker, plan: Plan, settings: dict[str, str]) -> dict[str, Any]:
    client, topic = session.native, f"latency-{os.urandom(4).hex()}"
    client.create(broker.kafka, topic, plan.partitions, broker.topic_settings[plan.mode])
    before, watch = broker.usage(), Watch()
    warm_up = int(plan.rate * plan.warm_up_seconds)
    messages = int(plan.rate * plan.seconds) + warm_up
    all_settings = {"acks": ACKS_OF_MODE[plan.mode], **settings}
    if plan.is_idempotent:
        all_settings["enable.idempotence"] = "true"  # a retry after a leader moved keeps the order
    times = client.latency(
        broker.kafka,
        topic,
        partitions=plan.partitions,
        messages=messages,
        warm_up=warm_up,
        size=plan.size,
        rate=plan.rate,
        settings=all_settings,
    )
    cpu = broker.usage().cpu_seconds - before.cpu_seconds
    others = watch.others(cpu + times["cpu"])
    client.delete(broker.kafka, topic)
    return {
        "broker": broker.name,
        "version": broker.version,
        "mode": plan.mode,
        "partitions": plan.partitions,
        "client_settings": all_settings,
        "verified": True,
        "broker_cpu_seconds_per_million": cpu / messages * 1e6,
        "other_cores": others,
        "publish_p99": times["publish_ms"]["p99"],
        **times,
    }


def _row(broker: Broker, settings: dict[str, str], figures: dict[str, Any]) -> list[str]:
    cells = [
        f"{figures[way][point]:.2f}"
        for way in ("publish_ms", "end_to_end_ms")
        for point in ("p50", "p99", "p99.9", "max")
    ]
    cpu = f"{figures['broker_cpu_seconds_per_million']:.1f}"
    return [_text(settings), f"{broker.name} {broker.version}", *cells, cpu]


def _text(settings: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
