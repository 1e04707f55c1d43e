"""The command line: `python -m bench [--quick] [part] [options]`; every part when none is named."""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import clients, machine, report
from bench.brokers import installed_goqueue
from bench.kafka import VERSIONS, is_available
from bench.parts import failover, latency, partitions, startup, throughput, web
from bench.process import Failed
from bench.session import ACKS_OF_MODE, DURABLE, Section, Session

ROOT = Path(__file__).parents[1]
Options = argparse.Namespace
LINGERS_MS = (1, 5)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception: brokers are ended
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 200)
    directory = Path(tempfile.mkdtemp(prefix="goqueue-bench-", dir=options.directory))
    try:
        return _run(options, console, directory)
    except Failed as problem:
        console.print(f"[red]failed:[/] {problem}", highlight=False)
        return 1
    finally:
        if options.keep:
            console.print(f"left in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _run(options: Options, console: Console, directory: Path) -> int:
    session = Session(
        directory=directory,
        goqueue=options.goqueue or installed_goqueue(),
        client=clients.chosen(directory, options.client),
        peers=options.peer,
        repeats=options.repeats or (1 if options.quick else 3),
        retries=options.retries,
        syncs_first=not options.quick,
        quiet_wait_seconds=options.quiet_wait,
        kafka_version=options.kafka_version,
        nodes=options.nodes,
        on_etcd=options.etcd,
        tell=lambda text: console.print(f"[dim]{_clock()}  {text}[/]", highlight=False),
    )
    facts = machine.facts(session.goqueue, directory)
    report.show_machine(console, facts)
    sections: list[Section] = []
    failed = False
    for name in [options.part] if options.part else _parts_of(options.nodes):
        try:
            section = PARTS[name](session, options)
        except Failed as problem:  # the other parts need not be lost for it
            console.print(f"[red]{name} failed:[/] {problem}", highlight=False)
            failed = True
            continue
        report.show(console, section)
        sections.append(section)
        facts["load_average_at_end"] = machine.load_average()
        report.write(options.json, facts, sys.argv, sections)
    if options.markdown:
        for section in sections:
            console.print(f"\n{section.title}\n", highlight=False)
            print(report.markdown(section))
    console.print(f"figures: {options.json}")
    return int(failed)


# --- the parts, full and quick --------------------------------------------------------------------


def _throughput(session: Session, options: Options) -> Section:
    if options.messages or options.size:
        loads = [throughput.Load(options.messages or 1_000_000, options.size or 100)]
    elif options.quick:
        loads = [throughput.Load(1_000_000, 100), throughput.Load(200_000, 1024)]
    else:
        loads = [throughput.Load(5_000_000, 100), throughput.Load(1_000_000, 1024)]
    plan = throughput.Plan(
        loads=loads,
        modes=options.mode or list(ACKS_OF_MODE),
        partitions=options.partitions or 1,
        warm_up=min(max(load.messages for load in loads), 1_000_000),
        is_idempotent=options.nodes > 1,
    )
    return throughput.run(session, plan)


def _latency(session: Session, options: Options) -> Section:
    plan = latency.Plan(
        rate=options.rate,
        seconds=options.seconds or (5 if options.quick else 20),
        warm_up_seconds=2 if options.quick else 5,
        size=options.size or 100,
        partitions=options.partitions or 1,
        mode=(options.mode or [DURABLE])[0],
        client_settings=[{"linger.ms": str(linger)} for linger in options.linger or LINGERS_MS],
        is_idempotent=options.nodes > 1,
    )
    return latency.run(session, plan)


def _startup(session: Session, options: Options) -> Section:
    gigabytes = options.gigabytes or (1 if options.quick else 10)
    plan = startup.Plan(
        bytes_on_disk=int(gigabytes * 1e9),
        size=options.size or 10_000,
        partitions=options.partitions or 3,
        load_seconds=options.seconds or 3,
    )
    return startup.run(session, plan)


def _partitions(session: Session, options: Options) -> Section:
    plan = partitions.Plan(
        topics=options.topics,
        partitions=options.partitions or (100 if options.quick else 1000),
        idle_seconds=options.seconds or (2 if options.quick else 10),
    )
    return partitions.run(session, plan)


def _web(session: Session, options: Options) -> Section:
    plan = web.Plan(
        messages=options.messages or (200_000 if options.quick else 1_000_000),
        batch=1000,
        size=options.size or 100,
        connections=options.connections or [1, 4, 16],
    )
    return web.run(session, plan)


def _failover(session: Session, options: Options) -> Section:
    if session.nodes == 1:
        raise Failed("one node has nobody to take over: say --nodes 3")
    return failover.run(
        session, failover.Plan(rounds=options.rounds or (1 if options.quick else 5))
    )


PARTS: dict[str, Callable[[Session, Options], Section]] = {
    "throughput": _throughput,
    "latency": _latency,
    "http": _web,
    "partitions": _partitions,
    "startup": _startup,
    "failover": _failover,
}
ONE_NODE = ("throughput", "latency", "http", "partitions", "startup")
THREE_NODES = ("throughput", "latency", "failover")


def _parts_of(nodes: int) -> Sequence[str]:
    return ONE_NODE if nodes == 1 else THREE_NODES


# --- options --------------------------------------------------------------------------------------


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("part", nargs="?", choices=list(PARTS), help="one part; else all that fit --nodes")
    add("--quick", action="store_true", help="small sizes, once each: about a minute")
    add(
        "--peer",
        action="append",
        choices=["kafka", "none"],
        help="else kafka where java and mvn are there",
    )
    add("--repeats", type=int, help="passes of each figure; the median is shown (3)")
    add("--retries", type=int, default=0, help="passes to do again that others disturbed")
    add("--quiet-wait", type=float, default=0.0, help="seconds to wait for a quiet machine")
    add("--nodes", type=int, choices=[1, 3], default=1, help="of each broker; 3: RF 3, min ISR 2")
    add("--etcd", action="store_true", help="GoQueue's nodes on an etcd, so that any may be killed")
    add("--rounds", type=int, help="failover: how often each fault is made (5)")
    add("--messages", type=int, help="throughput, http: messages a pass")
    add("--size", type=int, help="bytes of a message")
    add("--partitions", type=int, help="partitions of each topic")
    add("--topics", type=int, default=10, help="partitions: so many topics (10)")
    add("--mode", action="append", choices=list(ACKS_OF_MODE), help="what an ack stands for")
    add("--rate", type=int, default=20_000, help="latency: messages a second")
    add("--seconds", type=float, help="latency, partitions, startup: length of a pass")
    add("--linger", type=int, action="append", help="latency: linger.ms of the client (1 and 5)")
    add("--connections", type=int, action="append", help="http: connections at once")
    add("--gigabytes", type=float, help="startup: how much is on disk (10)")
    add("--client", choices=["auto", "native", "kcat", "confluent"], default="auto")
    add("--goqueue", help="the goqueue command to measure; else the one beside this Python")
    add("--kafka-version", default=VERSIONS, help="a version, or a range as Maven writes it")
    add("--directory", type=Path, help="where data goes while measuring; else the system's tmp")
    add("--json", type=Path, help="where figures go; else build/bench/DATE.json")
    add("--markdown", action="store_true", help="print the tables as Markdown as well")
    add("--keep", action="store_true", help="leave data and logs when done")
    options = parser.parse_args()
    if options.peer is None:
        options.peer = ["kafka"] if is_available() and not options.quick else []
    options.peer = [peer for peer in options.peer if peer != "none"]
    if options.directory is not None:
        options.directory.mkdir(parents=True, exist_ok=True)
    if options.json is None:
        date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        options.json = ROOT / "build" / "bench" / f"{date}-{options.part or 'all'}.json"
    return options


def _clock() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S")


if __name__ == "__main__":
    sys.exit(main())
