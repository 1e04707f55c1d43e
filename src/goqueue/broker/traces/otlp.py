"""Spans over OTLP, through OpenTelemetry's SDK: `pip install 'goqueue[otel]'`.

The SDK makes spans of a running program; ours are over and have their ids.  So they are handed to
its exporters as they are.  Jaeger and Tempo take OTLP; Jaeger's own agent protocol is retired.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from goqueue.model.config import TracesConfig
from goqueue.model.errors import GoQueueError, InvalidSetting
from goqueue.trace.spans import Span

PROTOCOLS: Final = ("otlp-http", "otlp-grpc")
TIMEOUT_SECONDS: Final = 10
BATCH_SPANS: Final = 512


def open_otlp(name: str, config: TracesConfig) -> Callable[[Sequence[Span]], None]:
    """Raises `InvalidSetting`."""
    if name not in PROTOCOLS:
        known = ", ".join(("stdout", "jsonl", *PROTOCOLS))
        raise InvalidSetting(f"traces.export: {name!r} is not one of {known}")
    try:
        from opentelemetry.sdk.trace.export import SpanExportResult

        exporter = _exporter(name, config.otlp_endpoint)
    except ImportError as error:
        raise InvalidSetting(
            f"traces.export: {name} needs OpenTelemetry: pip install 'goqueue[otel]' ({error})"
        ) from error

    def export(spans: Sequence[Span]) -> None:
        for first in range(0, len(spans), BATCH_SPANS):
            some = [_readable(span) for span in spans[first : first + BATCH_SPANS]]
            if exporter.export(some) is not SpanExportResult.SUCCESS:
                raise GoQueueError("the collector did not take them")

    return export


def _exporter(name: str, endpoint: str) -> Any:
    """Without an endpoint, the SDK's: OTEL_EXPORTER_OTLP_ENDPOINT, or localhost."""
    if name == "otlp-grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as Grpc,
        )

        insecure = True if endpoint.startswith("http://") else None
        return Grpc(endpoint=endpoint or None, insecure=insecure, timeout=TIMEOUT_SECONDS)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
    return Http(endpoint=url, timeout=TIMEOUT_SECONDS)


def _readable(span: Span) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: str, *, is_remote: bool) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote, flags)

    parent = context(span.parent_span_id, is_remote=True) if span.parent_span_id else None
    is_publish = span.name.startswith("publish")
    return ReadableSpan(
        name=span.name,
        context=context(span.span_id, is_remote=False),
        parent=parent,
        resource=Resource({"service.name": "goqueue"}),
        attributes=span.attributes,
        kind=SpanKind.SERVER if is_publish else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_us * 1000,
        end_time=span.end_us * 1000,
    )
