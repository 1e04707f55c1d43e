"""How fast can one C client write and read, and what does the broker pay for it?

A topic is filled, read back whole and compared, and deleted; and so for each size, mode and
repeat.  A warm-up comes first, which a JVM needs more than GoQueue.
"""

import os
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from bench.brokers import Broker
from bench.client import Run
from bench.process import Failed, Usage
from bench.session import (
    ACKS_OF_MODE,
    Measure,
    Section,
    Session,
    Watch,
    disturbed,
    mebibytes,
    median_of,
)

BUSY = 0.85  # of a core: whoever is at it has no time left


class Load(msgspec.Struct, frozen=True):
    messages: int
    size: int


class Plan(msgspec.Struct, frozen=True):
    loads: list[Load]
    modes: list[str]
    partitions: int
    warm_up: int
    client_settings: dict[str, str] = {}
    is_idempotent: bool = False  # for several nodes: whose leaders may move meanwhile


def run(session: Session, plan: Plan) -> Section:
    section = Section(
        "throughput",
        f"Produce and consume, {session.client.name}, {plan.partitions} partition(s),"
        f" median (best) of {session.repeats}",
        ["load", "mode", "broker", *_columns("produce"), *_columns("consume"), "peak RSS MiB"],
    )
    failures: list[str] = []
    with session.running(*session.names) as brokers:
        for broker in brokers:
            _warm_up(session, broker, plan)
        for load in plan.loads:
            for mode in plan.modes:
                session.tell(f"{_text(load)}, {mode}")
                measures: list[Measure] = [
                    partial(_pass, session, broker, plan, load, mode) for broker in brokers
                ]
                try:
                    section.figures += chain.from_iterable(session.in_turns(measures))
                except Failed as problem:  # the other rows need not be lost for it
                    failures.append(f"{_text(load)}, {mode}: failed: {problem}")
                    session.tell(failures[-1])
    section.rows = _rows(session, plan, section.figures)
    section.notes = [*failures, *_notes(section.figures)]
    return section


def _columns(way: str) -> list[str]:
    return [f"{way} msg/s", "MB/s", "CPU s/M", "limit"]


def _warm_up(session: Session, broker: Broker, plan: Plan) -> None:
    mode = plan.modes[0]
    _pass(session, broker, plan, Load(plan.warm_up, plan.loads[0].size), mode)


def _pass(session: Session, broker: Broker, plan: Plan, load: Load, mode: str) -> dict[str, Any]:
    client, topic = session.client, f"bench-{load.size}-{os.urandom(4).hex()}"
    client.create(broker.kafka, topic, plan.partitions, broker.topic_settings[mode])
    shape: dict[str, Any] = {
        "partitions": plan.partitions,
        "messages": load.messages,
        "size": load.size,
    }
    settings = {"acks": ACKS_OF_MODE[mode], **plan.client_settings}
    if plan.is_idempotent and settings["acks"] == "all":
        settings["enable.idempotence"] = "true"  # a retry after a leader moved keeps the order
    before, watch = broker.usage(), Watch()
    produced = client.produce(broker.kafka, topic, settings=settings, **shape)
    between = broker.usage()
    produce = _figures(produced, load, before, between, watch)
    watch = Watch()
    consumed = client.consume(broker.kafka, topic, **shape)
    after = broker.usage()
    consume = _figures(consumed, load, between, after, watch)
    client.delete(broker.kafka, topic)
    if produced.messages != load.messages or consumed.messages != load.messages:
        raise Failed(f"{topic}: {consumed.messages} read of {load.messages}")
    return {
        "broker": broker.name,
        "version": broker.version,
        "mode": mode,
        "size": load.size,
        "messages": load.messages,
        "partitions": plan.partitions,
        "client": session.client.name,
        "client_settings": settings,
        "topic_settings": broker.topic_settings[mode],
        "verified": True,
        "produce": produce,
        "consume": consume,
        "other_cores": max(produce["other_cores"], consume["other_cores"]),
        "resident_bytes": after.resident_bytes,
        "resident_bytes_peak": after.resident_bytes_peak,
    }


def _figures(run: Run, load: Load, before: Usage, after: Usage, watch: Watch) -> dict[str, Any]:
    broker_cpu = after.cpu_seconds - before.cpu_seconds
    rate = run.messages / run.seconds
    return {
        "messages_per_second": rate,
        "megabytes_per_second": rate * load.size / 1e6,
        "seconds": run.seconds,
        "broker_cpu_seconds_per_million": broker_cpu / run.messages * 1e6,
        "broker_cores": broker_cpu / run.seconds,
        "client_cores": run.cpu_seconds / run.seconds,
        "client_busiest_thread_cores": run.busiest_thread,
        "other_cores": watch.others(broker_cpu + run.cpu_seconds),
        "limit": _limit(run, broker_cpu),
    }


def _limit(run: Run, broker_cpu: float) -> str:
    cores = os.cpu_count() or 1
    if run.busiest_thread >= BUSY:
        return "client"
    if broker_cpu / run.seconds >= BUSY:
        return "broker"
    if (broker_cpu + run.cpu_seconds) / run.seconds >= BUSY * cores:
        return "cores"
    return "waiting"


def _rows(session: Session, plan: Plan, figures: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for load in plan.loads:
        for mode in plan.modes:
            both = {}
            measured = [
                each for each in figures if (each["size"], each["mode"]) == (load.size, mode)
            ]
            for name in session.names if measured else ():
                found = both[name] = [each for each in measured if each["broker"] == name]
                rows.append([_text(load), mode, f"{name} {found[0]['version']}", *_cells(found)])
            rows += [
                [_text(load), mode, f"goqueue / {peer}", *_ratio(both["goqueue"], both[peer])]
                for peer in session.peers
                if measured
            ]
    return rows


def _cells(found: list[dict[str, Any]]) -> list[str]:
    cells = []
    for way in ("produce", "consume"):
        one = [each[way] for each in found]
        cells += [
            _median_and_best(one),
            f"{median_of(one, 'megabytes_per_second'):,.0f}",
            f"{median_of(one, 'broker_cpu_seconds_per_million'):.3f}",
            " ".join(sorted({each["limit"] for each in one})),
        ]
    return [*cells, mebibytes(max(each["resident_bytes_peak"] for each in found))]


def _median_and_best(found: list[dict[str, Any]]) -> str:
    rate = "messages_per_second"
    best = max(each[rate] for each in found)
    return f"{median_of(found, rate):,.0f} ({best:,.0f})"


def _ratio(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[str]:
    cells = []
    for way in ("produce", "consume"):
        mine, other = ([each[way] for each in side] for side in (ours, theirs))
        speed = median_of(mine, "messages_per_second") / median_of(other, "messages_per_second")
        key = "broker_cpu_seconds_per_million"
        cost = median_of(mine, key) / max(median_of(other, key), 1e-9)
        cells += [f"× {speed:.2f}", "", f"× {cost:.2f}", ""]
    peak = "resident_bytes_peak"
    memory = max(each[peak] for each in ours) / max(each[peak] for each in theirs)
    return [*cells, f"× {memory:.2f}"]


def _notes(figures: list[dict[str, Any]]) -> list[str]:
    notes = [
        "limit: client or broker = one of its threads or it is at 85 % of a core; cores = both"
        " together fill the machine; waiting = neither (disk, network, scheduling).",
        "Every message was read back and compared.  Reads come from the page cache.",
    ]
    return notes + disturbed(figures)


def _text(load: Load) -> str:
    return f"{load.messages / 1e6:g} M × {load.size} B"
