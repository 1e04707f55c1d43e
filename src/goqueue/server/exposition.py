"""Metrics as text, in Prometheus' format or as OpenMetrics, without holding the event loop.

A scrape of ten thousand partitions is tens of milliseconds of work.  It is done in slices of a
millisecond, with the event loop's other work in between: collectors yield `PAUSE` where they may be
interrupted, and families with many samples are encoded some at a time.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

SLICE_SECONDS: Final = 0.001
SAMPLES_AT_ONCE: Final = 100  # encoding them takes half a millisecond
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text"
END: Final = b"# EOF\n"  # of OpenMetrics

PAUSE: Final = Metric("pause", "The event loop may turn now.", "unknown")

Encode = Callable[[Collector], bytes]


class Slices:
    """Lets the event loop turn between slices of long work."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """If this slice is over."""
        if time.perf_counter() - self._began > SLICE_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


class Exposition:
    """One scrape at a time: collectors remember what they counted at the one before."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._turn = asyncio.Lock()

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Everything, and its content type: as OpenMetrics, with examples, for who accepts it."""
        encode, content_type = _choose(accept)
        parts: list[bytes] = []
        async with self._turn:
            slices = Slices()
            for part in _parts(self._registry.collect(), encode):
                parts.append(part)
                await slices.pause()
        if content_type.startswith(OPENMETRICS):
            parts.append(END)
        return b"".join(parts), content_type


def _choose(accept: str) -> tuple[Encode, str]:
    encode, content_type = choose_encoder(accept)
    if content_type.startswith(OPENMETRICS):
        return encode, content_type
    return generate_latest, CONTENT_TYPE


def _parts(families: Iterable[Metric], encode: Encode) -> Iterator[bytes]:
    for family in families:
        if family is PAUSE:
            yield b""
            continue
        samples = [each for each in family.samples if not each.name.endswith("_created")]
        for first in range(0, max(1, len(samples)), SAMPLES_AT_ONCE):
            some = Metric(family.name, family.documentation, family.type, family.unit)
            some.samples = samples[first : first + SAMPLES_AT_ONCE]
            text = encode(_Families([some])).removesuffix(END)
            yield text if first == 0 else _without_head(text)


def _without_head(text: bytes) -> bytes:
    """The lines that name the family stand before its first samples."""
    while text.startswith(b"# "):
        text = text.partition(b"\n")[2]
    return text


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
