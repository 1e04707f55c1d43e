"""What one more member costs those who are already there.

    python -m bench.rebalance [--heartbeat-ms 200] [--members 10] [--partitions 100]

Members of librdkafka read steady traffic; then one more joins.  For each way to rebalance:

    eager         classic protocol, range: everybody gives up everything, then gets it anew
    cooperative   classic protocol, cooperative-sticky: only what moves is given up
    consumer      KIP-848: the broker divides, members follow at their heartbeats

Every message carries its moment of sending and its number in its partition.  A partition's pause
is the longest that one of its messages took to arrive; a poll is missed when a member polls while
it does not have a partition that it had before and has again afterwards.  At the end every message
must have arrived, in order.  The topic is not synced, for the device's pauses are not the group's;
what a group writes is.  A member hears of a rebalance at its next heartbeat, so no group
settles faster than that.
"""

import argparse
import contextlib
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import READY_LINE, environment_without_src, installed_goqueue
from bench.process import Failed, Process

TOPIC = "traffic"
MESSAGE = struct.Struct(">qq")  # when it was sent (monotonic ns), its number in its partition
POLL_S = 0.02
WARM_UP_S = 3.0
AFTER_S = 2.0
WAIT_S_MAX = 60.0
WAYS = ("eager", "cooperative", "consumer")


class Options(msgspec.Struct, frozen=True):
    members: int
    partitions: int
    heartbeat_ms: int
    rate: int  # messages a second, in all


class Result(msgspec.Struct, frozen=True):
    way: str
    settled_ms: float
    steady_ms: list[float]  # the pause of every partition before anybody joined
    kept_ms: list[float]  # … of those that stayed, while the group settled
    moved_ms: list[float]  # … of those that moved
    missed_polls: int
    messages: int
    doubles: int


class Member:
    """A consumer in a thread, and all that it saw."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.assigned: frozenset[int] = frozenset()
        self.polls: list[tuple[int, frozenset[int]]] = []  # when, and with which partitions
        self.arrivals: list[tuple[int, int, int, int]] = []  # when, partition, sent, number
        self._stopping = threading.Event()
        self._consumer = Consumer(settings)
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        consumer = self._consumer
        while not self._stopping.is_set():
            messages = consumer.consume(500, POLL_S)
            now = time.monotonic_ns()
            for message in messages:
                if message.error() is None:
                    sent, number = MESSAGE.unpack(message.value())
                    self.arrivals.append((now, message.partition(), sent, number))
            self.assigned = frozenset(place.partition for place in consumer.assignment())
            self.polls.append((now, self.assigned))
        consumer.close()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()


class Traffic:
    """Messages to all partitions in turn, evenly in time."""

    def __init__(self, address: str, options: Options) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "linger.ms": 0,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._options = options
        self._stopping = threading.Event()
        self.rounds = 0  # messages in each partition
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        partitions = self._options.partitions
        round_s = partitions / self._options.rate
        due = time.monotonic()
        while not self._stopping.is_set():
            for partition in range(partitions):
                value = MESSAGE.pack(time.monotonic_ns(), self.rounds)
                self._producer.produce(TOPIC, value, partition=partition)
            self.rounds += 1
            self._producer.poll(0)
            due += round_s
            self._stopping.wait(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(WAIT_S_MAX):
            raise Failed("not every message was acknowledged")


# --- one way ------------------------------------------------------------------------------------


def measure(way: str, address: str, options: Options) -> Result:
    settings = _settings(way, address, options)
    members = [Member(settings) for _ in range(options.members)]
    traffic = Traffic(address, options)
    try:
        _wait(lambda: _is_divided(members, options), "the group did not form")
        time.sleep(WARM_UP_S)
        before = {each: each.assigned for each in members}
        joined = time.monotonic_ns()
        members.append(Member(settings))
        _wait(lambda: _is_divided(members, options), "the group did not settle")
        time.sleep(AFTER_S)
        traffic.stop()
        sent = traffic.rounds * options.partitions
        _wait(lambda: _arrived(members) >= sent, "messages are missing")
    finally:
        traffic.stop()
        for member in members:
            member.stop()
        for member in members:
            member.join()
    return _result(way, members, before, joined, traffic.rounds, options)


def _settings(way: str, address: str, options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": f"group-{way}",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
    }
    if way == "consumer":
        return settings | {"group.protocol": "consumer"}
    strategy = "range" if way == "eager" else "cooperative-sticky"
    return settings | {
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": options.heartbeat_ms,
        "session.timeout.ms": 10_000,
    }


def _is_divided(members: list[Member], options: Options) -> bool:
    shares = [member.assigned for member in members]
    sizes = [len(share) for share in shares]
    return (
        sum(sizes) == options.partitions
        and len(frozenset().union(*shares)) == options.partitions
        and max(sizes) - min(sizes) <= 1
    )


def _arrived(members: list[Member]) -> int:
    return len({arrival[1::2] for member in members for arrival in list(member.arrivals)})


def _wait(holds: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(failure)
        time.sleep(0.01)


# --- what came out ------------------------------------------------------------------------------


def _result(
    way: str,
    members: list[Member],
    before: dict[Member, frozenset[int]],
    joined: int,
    rounds: int,
    options: Options,
) -> Result:
    settled = _settled_at(members, joined, options)
    kept = {each: before.get(each, frozenset()) & each.assigned for each in members}
    staying = frozenset().union(*kept.values())
    arrivals = sorted(arrival for member in members for arrival in member.arrivals)
    check_contents(arrivals, rounds, options)
    during = _pauses(arrivals, joined, settled + int(AFTER_S * 1e9))
    return Result(
        way=way,
        settled_ms=(settled - joined) / 1e6,
        steady_ms=list(_pauses(arrivals, joined - int(WARM_UP_S * 5e8), joined).values()),
        kept_ms=[during[partition] for partition in staying],
        moved_ms=[during[partition] for partition in set(during) - staying],
        missed_polls=sum(_missed(each, kept[each], joined, settled) for each in members),
        messages=rounds * options.partitions,
        doubles=len(arrivals) - rounds * options.partitions,
    )


def _settled_at(members: list[Member], joined: int, options: Options) -> int:
    """When the last change of an assignment was seen."""
    last = joined
    for member in members:
        for (_, earlier), (when, later) in zip(member.polls, member.polls[1:], strict=False):
            if when > joined and earlier != later:
                last = max(last, when)
    return last


def _missed(member: Member, kept: frozenset[int], joined: int, settled: int) -> int:
    polls = [assigned for when, assigned in member.polls if joined <= when <= settled]
    return sum(not kept <= assigned for assigned in polls)


def _pauses(arrivals: list[tuple[int, int, int, int]], since: int, until: int) -> dict[int, float]:
    """The longest that a message sent in this time took, in each partition, in milliseconds."""
    longest: dict[int, float] = {}
    first: set[tuple[int, int]] = set()
    for when, partition, sent, number in arrivals:
        if since <= sent <= until and (partition, number) not in first:
            first.add((partition, number))
            longest[partition] = max(longest.get(partition, 0.0), (when - sent) / 1e6)
    return longest


def check_contents(
    arrivals: list[tuple[int, int, int, int]], rounds: int, options: Options
) -> None:
    """Every message once at least, and none before an earlier one."""
    following = dict.fromkeys(range(options.partitions), 0)
    for _, partition, _, number in arrivals:
        if number > following[partition]:
            raise Failed(f"partition {partition}: {number} came before {following[partition]}")
        following[partition] = max(following[partition], number + 1)
    if set(following.values()) != {rounds}:
        raise Failed("messages are missing")


def show(result: Result) -> None:
    print(
        f"{result.way:12} settled {result.settled_ms:6.0f} ms,"
        f" missed polls {result.missed_polls:4};"
        f" {result.messages} messages verified, {result.doubles} twice"
    )
    for name, pauses in (
        ("before", result.steady_ms),
        ("kept", result.kept_ms),
        ("moved", result.moved_ms),
    ):
        if pauses:
            middle, longest = statistics.median(pauses), max(pauses)
            print(
                f"    {name:7} {len(pauses):3} partitions:"
                f" pause p50 {middle:6.0f} ms, max {longest:6.0f} ms"
            )


# --- the broker ---------------------------------------------------------------------------------


@contextlib.contextmanager
def broker(directory: Path, options: Options) -> Iterator[str]:
    argv = [installed_goqueue(), "server", "--data-dir", str(directory / "data")]
    argv += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warning"]
    argv += ["--set", "groups.initial_rebalance_delay_ms=0"]
    argv += ["--set", f"groups.heartbeat_interval_ms={options.heartbeat_ms}"]
    process = Process(argv, directory / "goqueue.log", env=environment_without_src())
    try:
        while not (line := READY_LINE.search(process.output.read_text(errors="replace"))):
            process.demand_alive()
            time.sleep(0.01)
        yield line.group(1)
    finally:
        process.stop()


def _options(arguments: list[str]) -> tuple[Options, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("ways", nargs="*", default=WAYS, help=f"of {', '.join(WAYS)}")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--heartbeat-ms", type=int, default=200)
    parser.add_argument("--rate", type=int, default=2000, help="messages a second, in all")
    given = parser.parse_args(arguments)
    return Options(given.members, given.partitions, given.heartbeat_ms, given.rate), given.ways


def main(arguments: list[str]) -> None:
    options, ways = _options(arguments)
    print(
        f"{options.members} members, {options.partitions} partitions, {options.rate} messages/s,"
        f" heartbeats every {options.heartbeat_ms} ms; one more joins"
    )
    for way in ways:
        with (
            tempfile.TemporaryDirectory() as directory,
            broker(Path(directory), options) as address,
        ):
            admin = AdminClient({"bootstrap.servers": address})
            topic = NewTopic(TOPIC, options.partitions, config={"flush": "never"})
            (created,) = admin.create_topics([topic]).values()
            created.result(WAIT_S_MAX)
            show(measure(way, address, options))


if __name__ == "__main__":
    main(sys.argv[1:])
