"""Events leave the broker: as lines on standard output or in files, or by OTLP.

The history hands each batch of new events to `Exporters.take`.  They are made spans and sent on a
thread, one batch after the other; while a collector is slow, what comes is kept up to a bound, and
then dropped and counted.  A collector that is down costs the broker nothing else.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

from goqueue.broker.security.audit_file import AuditFile
from goqueue.broker.traces.otlp import open_otlp
from goqueue.model.config import Config
from goqueue.runtime import Clock, Disk
from goqueue.trace.events import TraceEvent
from goqueue.trace.spans import Span, SpanMaker

KEPT_EVENTS_MAX: Final = 50_000
WAIT_SECONDS: Final = 0.2

Export = Callable[[Sequence[Span]], None]  # blocking; raises when it failed

_log = structlog.get_logger("goqueue.traces")


class Exporters:
    def __init__(self, disk: Disk, clock: Clock, config: Config) -> None:
        """Raises `InvalidSetting` for an exporter that is not known, or not installed."""
        self._disk = disk
        self._clock = clock
        self.names = list(config.traces.export)
        self._exports = {name: open_exporter(name, disk, config) for name in self.names}
        self._spans = SpanMaker()
        self._kept: list[TraceEvent] = []
        self._has_some = asyncio.Event()
        self._problem = ""
        self.dropped_total = 0
        self.failed_total = 0

    def take(self, events: Sequence[TraceEvent]) -> None:
        room = KEPT_EVENTS_MAX - len(self._kept)
        self._kept += events[:room]
        self.dropped_total += max(0, len(events) - room)
        self._has_some.set()

    async def run(self) -> None:
        """Until cancelled."""
        while self._exports:
            await self._has_some.wait()
            await self.flush()
            await self._clock.sleep(WAIT_SECONDS)  # for more, as one batch

    async def flush(self) -> None:
        self._has_some.clear()
        events, self._kept = self._kept, []
        spans = self._spans.make(events)
        for name, export in self._exports.items():
            if spans:
                await self._send(name, export, spans)

    async def _send(self, name: str, export: Export, spans: Sequence[Span]) -> None:
        try:
            await self._disk.in_background(lambda: export(spans))
            self._problem = ""
        except Exception as error:  # of a foreign library, or a collector
            self.failed_total += len(spans)
            if self._problem != str(error):  # once: it may go on for long
                self._problem = str(error)
                _log.error("spans not exported", exporter=name, problem=self._problem)


def open_exporter(name: str, disk: Disk, config: Config) -> Export:
    match name:
        case "stdout":
            return _print
        case "jsonl":
            return _file_export(disk, config)
        case _:
            return open_otlp(name, config.traces)


def _lines(spans: Sequence[Span]) -> bytes:
    return b"".join(msgspec.json.encode(span) + b"\n" for span in spans)


def _print(spans: Sequence[Span]) -> None:
    sys.stdout.write(_lines(spans).decode())
    sys.stdout.flush()


def _file_export(disk: Disk, config: Config) -> Export:
    traces = config.traces
    file = AuditFile(
        disk,
        traces.jsonl_file or f"{config.data_dir}/traces/traces.jsonl",
        bytes_max=traces.jsonl_bytes_max,
        files_max=traces.jsonl_files_max,
    )
    return lambda spans: file.append(_lines(spans))
