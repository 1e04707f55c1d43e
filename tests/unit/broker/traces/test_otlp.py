import pytest

from goqueue.broker.traces.otlp import open_otlp
from goqueue.model.config import TracesConfig
from goqueue.model.errors import GoQueueError, InvalidSetting
from goqueue.trace.spans import Span


def test_an_exporter_that_is_not_known_is_refused():
    with pytest.raises(InvalidSetting, match="'jaeger' is not one of"):
        open_otlp("jaeger", TracesConfig())


def test_a_collector_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch):
    exporter = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    results = pytest.importorskip("opentelemetry.sdk.trace.export").SpanExportResult
    sent: list[str] = []

    def refuse(_: object, spans: list[object]) -> object:
        sent.extend(span.name for span in spans)  # type: ignore[attr-defined]
        return results.FAILURE

    monkeypatch.setattr(exporter.OTLPSpanExporter, "export", refuse)
    export = open_otlp("otlp-http", TracesConfig(otlp_endpoint="http://127.0.0.1:9"))
    with pytest.raises(GoQueueError, match="did not take them"):
        export([Span("4b" * 16, "00f0" * 4, "publish", 1, 2, "00f1" * 4, "no", {"a": 1})])
    assert sent == ["publish"]
