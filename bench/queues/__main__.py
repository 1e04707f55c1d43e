"""Queues under load; every message's content is verified, every answer is durable.

    python -m bench.queues                          # all parts, a few minutes
    python -m bench.queues throughput [--batch 1000] [--broker kafka --broker rabbitmq …]
    python -m bench.queues latency [--rate 10000] [--seconds 20] [--delivery-durability async]
    python -m bench.queues backlog [--waiting 10000000]
    python -m bench.queues order [--ordered-workers 64] [--keys 10000]

`throughput` measures GoQueue by both doors, and RabbitMQ and NATS JetStream beside it where they
can be had.  Publishers and workers run at the same time; a rate is messages by the time from the
first publish to the last ack.  `latency` publishes at a steady rate, each message timed from when
it was due to its arrival.  `backlog` is about memory while millions wait; `order` about the price
of order by key.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.brokers import installed_goqueue
from bench.process import Failed
from bench.queues import backlog, order, throughput
from bench.queues.crew import Figures, Options
from bench.queues.throughput import BROKERS, DOORS, of_door

Part = Callable[[argparse.Namespace, Path, Console], list[Any]]


def main() -> int:
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 160)
    directory = Path(tempfile.mkdtemp(prefix="goqueue-queues-", dir=arguments.directory))
    arguments.goqueue = arguments.goqueue or installed_goqueue()
    facts = machine.facts(arguments.goqueue, directory)
    console.print(facts, highlight=False)
    results: dict[str, Any] = {}
    wanted = [arguments.part] if arguments.part else list(PARTS)
    try:
        for name in wanted:
            try:
                results[name] = PARTS[name](arguments, directory / name, console)
            except Failed as problem:
                console.print(f"[red]{name} failed:[/] {problem}", highlight=False)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if arguments.json:
        facts["load_average_at_end"] = machine.load_average()
        body = {**facts, "command": sys.argv, "results": msgspec.to_builtins(results)}
        Path(arguments.json).write_text(json.dumps(body, indent=2) + "\n")
    return 0 if all(results.get(name) for name in wanted) else 1


# --- the parts ------------------------------------------------------------------------------------


def _throughput(arguments: argparse.Namespace, directory: Path, console: Console) -> list[Figures]:
    options = _options(arguments, messages=arguments.messages, batch=arguments.batch)
    names = arguments.broker or BROKERS
    found = throughput.run(names, directory, arguments.goqueue, options, console.print)
    table = Table(
        "broker", "msg/s", "broker µs/msg", "client µs/msg", "p50 ms", "p99 ms", "peak MB"
    )
    for each in found:
        table.add_row(
            each.broker,
            f"{each.rate:,.0f}",
            f"{each.broker_cpu_us:.1f}",
            f"{each.client_cpu_us:.1f}",
            f"{each.latency_ms['p50']:.1f}",
            f"{each.latency_ms['p99']:.1f}",
            f"{each.resident_mb:.0f}",
        )
    table.title = (
        f"publish, receive, ack: {options.messages:,} messages in batches of {options.batch}"
    )
    console.print(table)
    return found


def _latency(arguments: argparse.Namespace, directory: Path, console: Console) -> list[Figures]:
    rate = arguments.rate
    options = _options(
        arguments,
        messages=rate * (arguments.seconds + 3),
        batch=1_000,
        rate=rate,
        warm_up=rate * 3,
        linger_ms=arguments.linger_ms,
    )
    names = [name for name in arguments.broker or DOORS if name in DOORS]
    found = [of_door(DOORS[each], directory / each, arguments.goqueue, options) for each in names]
    table = Table(
        *("broker", "rate", "p50 ms", "p99 ms", "p99.9 ms", "max ms"),
        *("broker µs/msg", "client µs/msg"),
    )
    for each in found:
        times = [f"{each.latency_ms[name]:.1f}" for name in ("p50", "p99", "p99.9", "max")]
        costs = [f"{each.broker_cpu_us:.1f}", f"{each.client_cpu_us:.1f}"]
        table.add_row(each.broker, f"{each.rate:,.0f}", *times, *costs)
    table.title = (
        f"from publish to receive: {rate:,} messages a second, linger {options.linger_ms} ms,"
        f" delivery durability {options.delivery_durability}"
    )
    console.print(table)
    return found


def _backlog(
    arguments: argparse.Namespace, directory: Path, console: Console
) -> list[backlog.Memory]:
    found = backlog.run(directory, arguments.goqueue, arguments.waiting, arguments.size, 100_000)
    table = Table("waiting", "idle MB", "published MB", "working MB", "peak MB", "published/s")
    table.add_row(
        f"{found.waiting:,}",
        f"{found.idle_mb:.0f}",
        f"{found.published_mb:.0f}",
        f"{found.working_mb:.0f}",
        f"{found.peak_mb:.0f}",
        f"{found.publish_rate:,.0f}",
    )
    table.title = "memory with a backlog"
    console.print(table)
    return [found]


def _order(arguments: argparse.Namespace, directory: Path, console: Console) -> list[order.Figures]:
    options = order.Options(
        arguments.ordered_messages,
        arguments.keys,
        arguments.ordered_workers,
        arguments.ordered_batch,
    )
    found = order.run(directory, arguments.goqueue, options, arguments.rounds)
    table = Table("ordering", "msg/s", "broker µs/msg", "nacks")
    for each in found:
        table.add_row(each.ordering, f"{each.rate:,.0f}", f"{each.broker_cpu_us}", str(each.nacks))
    free = sum(1 / each.rate for each in found if each.ordering == "none")
    ordered = sum(1 / each.rate for each in found if each.ordering == "key")
    table.title = (
        f"{options.workers} workers, {options.keys:,} keys: {free / ordered:.2f} of the rate"
    )
    console.print(table)
    return found


PARTS: dict[str, Part] = {
    "throughput": _throughput,
    "latency": _latency,
    "backlog": _backlog,
    "order": _order,
}


def _options(arguments: argparse.Namespace, **more: int) -> Options:
    given: dict[str, Any] = {
        "size": arguments.size,
        "publishers": arguments.publishers,
        "workers": arguments.workers,
        "partitions": arguments.partitions,
        "delivery_durability": arguments.delivery_durability,
    }
    return Options(**{**given, **more})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=list(PARTS), help="all of them when left out")
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a message")
    parser.add_argument("--batch", type=int, default=1_000, help="messages of one request")
    parser.add_argument("--publishers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--broker", action="append", choices=BROKERS)
    parser.add_argument(
        "--delivery-durability",
        choices=["sync", "async"],
        default="sync",
        help="of the queue group",
    )
    parser.add_argument("--rate", type=int, default=10_000, help="messages a second, for latency")
    parser.add_argument("--linger-ms", type=int, default=2, help="of publishers, for latency")
    parser.add_argument("--seconds", type=int, default=20, help="of figures, for latency")
    parser.add_argument("--waiting", type=int, default=10_000_000, help="messages, for backlog")
    parser.add_argument("--ordered-messages", type=int, default=200_000)
    parser.add_argument("--ordered-workers", type=int, default=64)
    parser.add_argument("--ordered-batch", type=int, default=50)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2, help="of order, each kind in turn")
    parser.add_argument("--goqueue", help="the command to measure")
    parser.add_argument("--directory", help="where the brokers keep their data")
    parser.add_argument("--json", help="write the figures here, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
