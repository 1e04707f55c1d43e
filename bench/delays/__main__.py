"""Delayed messages and recurring schedules beside their peers; every message is verified.

    python -m bench.delays [--part bursts|facts|schedules|produce] [--messages 100000] …

bursts      messages that are all due within one second, read by a reader that waits for them:
            goqueue, redis (a sorted set), rabbitmq (time to live and dead letters), nats (2.12+)
facts       GoQueue: schedule many, memory, start, lateness of a burst and under ordinary load
schedules   GoQueue: recurring schedules that are due in the same second, and many that wait
produce     GoQueue: what the search for headers costs topics without delays
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console

from bench import machine
from bench.brokers import installed_goqueue
from bench.delays import goqueue, nats, produce_cost, rabbitmq, redis, schedules
from bench.delays.figures import Burst, Fact, show
from bench.process import Failed
from bench.queues.peers import Missing

PARTS = ("bursts", "facts", "schedules", "produce")
PEERS: dict[str, Callable[[Path, int, int, float], Burst]] = {
    "redis": redis.measure,
    "nats": nats.measure,
    "nats-synced": nats.measure_synced,
    "rabbitmq": rabbitmq.measure,
}
SLOW = {"nats-synced": 20}  # they get this part of the messages
WAIT_SECONDS_MAX = 180.0


def main() -> int:
    options = _options()
    executable = options.goqueue or installed_goqueue()
    console = Console(width=None if sys.stdout.isatty() else 150)
    directory = Path(tempfile.mkdtemp(prefix="goqueue-delays-", dir=options.directory))
    about = machine.facts(executable, directory)
    console.print(about, highlight=False)
    bursts: list[Burst] = []
    facts: list[Fact] = []

    def run(name: str, work: Callable[[], object]) -> None:
        try:
            work()
        except (Failed, Missing, OSError) as problem:
            console.print(f"[red]{name}:[/] {problem}", highlight=False)

    try:
        for part in options.part or PARTS:
            for name, work in _works(part, options, directory, executable, bursts, facts):
                run(name, work)
                shutil.rmtree(directory / name, ignore_errors=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    show(console, bursts, facts)
    if options.json:
        results = {"bursts": msgspec.to_builtins(bursts), "facts": msgspec.to_builtins(facts)}
        body = {**about, "command": sys.argv, **results}
        options.json.write_text(json.dumps(body, indent=2) + "\n")
    return 0 if bursts or facts else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="delayed messages beside their peers")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--messages", type=int, default=100_000, help="due within one second")
    parser.add_argument("--pending", type=int, default=1_000_000, help="that wait for hours")
    parser.add_argument("--schedules", type=int, default=2_000, help="due within one second")
    parser.add_argument("--waiting", type=int, default=10_000, help="schedules that wait")
    parser.add_argument("--produced", type=int, default=300_000, help="plain messages")
    parser.add_argument("--peer", action="append", choices=list(PEERS))
    parser.add_argument("--goqueue", default="")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _works(
    part: str,
    options: argparse.Namespace,
    directory: Path,
    executable: str,
    bursts: list[Burst],
    facts: list[Fact],
) -> list[tuple[str, Callable[[], object]]]:
    """What belongs to a part: names, and what puts its figures into the lists."""

    def of_peer(name: str) -> Callable[[], object]:
        count = options.messages // SLOW.get(name, 1)
        lead_ms = 5_000 + count * SLOW.get(name, 1) // 10
        measure = PEERS[name]
        place = directory / name
        return lambda: bursts.append(measure(place, count, lead_ms, WAIT_SECONDS_MAX))

    count, place = options.messages, directory / part
    match part:
        case "bursts":
            own = goqueue.measure_burst
            lead_ms = 5_000 + count // 20
            return [
                ("bursts", lambda: bursts.append(own(place, executable, count, lead_ms))),
                *((name, of_peer(name)) for name in options.peer or PEERS),
            ]
        case "facts":
            found = goqueue.measure_facts(place, executable, options.pending, count)
            return [("facts", lambda: facts.extend(found))]
        case "schedules":
            waiting = schedules.measure_waiting(directory / "many", executable, options.waiting)
            burst = schedules.measure_burst
            return [
                ("schedules", lambda: bursts.append(burst(place, executable, options.schedules))),
                ("many", lambda: facts.extend(waiting)),
            ]
        case _:
            cost = produce_cost.measure(place, executable, options.produced)
            return [("produce", lambda: facts.extend(cost))]


if __name__ == "__main__":
    sys.exit(main())
