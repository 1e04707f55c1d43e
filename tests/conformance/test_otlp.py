"""One trace from an instrumented producer through the broker to an instrumented consumer."""

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import confluent_kafka
import grpc  # type: ignore[import-untyped]
import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from goqueue.model.config import TracesConfig
from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server

DEADLINE_SECONDS = 30


class Collector(TraceServiceServicer):
    """Keeps what it gets, over HTTP and gRPC."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quietly."""

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._grpc = grpc.server(futures.ThreadPoolExecutor(2))
        add_TraceServiceServicer_to_server(self, self._grpc)
        self.grpc = f"http://127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self.http = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever).start()
        self._grpc.start()

    def take(self, request: Any) -> None:
        self.spans += [
            span
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 # gRPC's name
        self.take(request)
        return ExportTraceServiceResponse()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._grpc.stop(None)


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


@pytest.mark.parametrize("protocol", ["otlp-http", "otlp-grpc"])
def test_producer_broker_and_consumer_are_one_trace(
    protocol: str, collector: Collector, tmp_path: Path, eventually: Callable[..., None]
):
    endpoint = collector.http if protocol == "otlp-http" else collector.grpc
    traces = TracesConfig(export=[protocol], otlp_endpoint=endpoint)
    server = Server(msgspec.structs.replace(free_port_config(tmp_path), traces=traces)).start()
    try:
        run_application(server, collector)
        eventually(lambda: "consume.acked" in names_in_trace(collector), within_s=30)
    finally:
        server.kill()
    found = names_in_trace(collector)
    assert {"publish", "consume.fetched", "consume.acked"} <= found
    produced = next(span for span in collector.spans if "send" in span.name)
    published = next(span for span in collector.spans if span.name == "publish")
    assert published.trace_id == produced.trace_id
    assert published.parent_span_id == produced.span_id
    mine = [span for span in collector.spans if span.trace_id == produced.trace_id]
    consumed = [span for span in mine if "process" in span.name or "receive" in span.name]
    linked = [
        span
        for span in collector.spans
        if any(link.trace_id == produced.trace_id for link in span.links)
    ]
    assert consumed or linked


def names_in_trace(collector: Collector) -> set[str]:
    own = {span.trace_id for span in collector.spans if "send" in span.name}
    return {span.name for span in collector.spans if span.trace_id in own}


def run_application(server: Server, collector: Collector) -> None:
    provider = TracerProvider()
    exporter = OTLPSpanExporter(f"{collector.http}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor: Any = ConfluentKafkaInstrumentor()
    producer = instrumentor.instrument_producer(
        confluent_kafka.Producer({**server.bootstrap, "log_level": 0}), provider
    )
    producer.produce("orders", value="hello")
    assert producer.flush(DEADLINE_SECONDS) == 0
    consumer = instrumentor.instrument_consumer(
        confluent_kafka.Consumer(
            {
                **server.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        ),
        provider,
    )
    consumer.subscribe(["orders"])
    ends, message = time.monotonic() + DEADLINE_SECONDS, None
    while message is None and time.monotonic() < ends:
        message = consumer.poll(1)
    assert message is not None
    consumer.poll(0.1)  # which ends the span of the message before
    consumer.commit(asynchronous=False)
    consumer.close()
    provider.shutdown()
