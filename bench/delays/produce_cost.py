"""What the search for headers of delays costs topics that have none.

The same messages go to topics of one server, in turns: `off` (no message may be delayed), `auto`
(the default) and `always` (every compressed batch is searched).
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from bench.brokers import GoQueue
from bench.delays.figures import Fact
from bench.delays.goqueue import create, running
from bench.process import Failed

CODECS = ("none", "lz4")
ROUNDS = 4
SETTINGS = {
    "off": {"goqueue.delayed.messages.max": "0"},
    "auto": {"goqueue.delayed.compressed": "auto"},
    "always": {"goqueue.delayed.compressed": "always"},
}


def measure(directory: Path, executable: str, count: int) -> Iterator[Fact]:
    values = [_message(number) for number in range(count)]
    with running(directory, executable) as broker:
        for name, settings in SETTINGS.items():
            create(broker, name, settings)
        for codec in CODECS:
            _produce(broker, "off", codec, values)
            _produce(broker, "auto", codec, values)  # what the budget had saved
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in SETTINGS}
            for number in range(ROUNDS):
                for name in list(found)[:: 1 if number % 2 else -1]:
                    found[name].append(_produce(broker, name, codec, values))
            yield from _facts(codec, count, found)


def _message(number: int) -> bytes:
    """100 bytes of JSON, which LZ4 makes a third of."""
    mixed = number * 2_654_435_761 % 2**32
    state = ("new", "paid", "sent")[mixed % 3]
    text = f'{{"order":{mixed},"customer":"c{mixed % 99_991}","state":"{state}","number":{number}'
    return text.ljust(99).encode() + b"}"


def _facts(codec: str, count: int, found: dict[str, list[tuple[float, float]]]) -> Iterator[Fact]:
    off = [statistics.median(each) for each in zip(*found["off"], strict=True)]
    for name, seen in found.items():
        wall, cpu = (statistics.median(each) for each in zip(*seen, strict=True))
        text = f"{count / wall:,.0f}/s, {cpu / count * 1e6:.2f} us of CPU a message"
        more = (
            f"{off[0] / wall:.3f} of the throughput of off, {(cpu - off[1]) / wall:+.1%} of a core"
        )
        goal = "at most 3 % slower" if name == "auto" else ""
        yield Fact(f"produce, {codec}, {name}", f"{text}; {more}", goal)


def _produce(broker: GoQueue, topic: str, codec: str, values: list[bytes]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    producer = Producer(
        {
            "bootstrap.servers": broker.kafka,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "log_level": 0,
        }
    )
    before, started = broker.usage().cpu_seconds, time.monotonic()
    for number, value in enumerate(values):
        producer.produce(topic, value)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise Failed("some were not accepted")
    return time.monotonic() - started, broker.usage().cpu_seconds - before
