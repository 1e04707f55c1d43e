"""Liveness, readiness, version and state of the server."""

from typing import Annotated

from litestar import Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter

from goqueue._version import __version__, compiled_modules
from goqueue.api.server import HealthBody, SimpleHealth, StatsBody, TopicStats, VersionBody
from goqueue.broker import Broker
from goqueue.model.times import time_text
from goqueue.server.exposition import CONTENT_TYPE
from goqueue.server.http.asgi.dependencies import TheBroker, TheHealth, TheMetrics
from goqueue.server.http.routes.family import Routes, query

CHARSET = "; charset=utf-8"  # which is added to every text


routes = Routes("server")

VERSION = VersionBody(__version__, list(compiled_modules()))


@routes.get("/health", "Say ok")
async def get_health(broker: TheBroker) -> SimpleHealth:
    """The process answers."""
    return SimpleHealth("ok", time_text(broker.environment.clock.now()))


@routes.get(["/healthz", "/livez"], "Alive")
async def get_alive(broker: TheBroker) -> HealthBody:
    """200 as long as the event loop turns: restart the process when this fails."""
    return _body(broker, "pass", "alive")


@routes.get(
    "/readyz",
    "Ready",
    responses={503: ResponseSpec(HealthBody, description="Not ready; `message` says why.")},
)
async def get_ready(
    broker: TheBroker,
    health: TheHealth,
    verbose: Annotated[str | None, query("Name each check.")] = None,
) -> Response[HealthBody]:
    """200 when the server takes reads and writes.

    503 while it starts, drains or stops, when the disk has no room, and when one of the server's
    own logs is read-only: send no traffic then.  With `verbose`, warnings are told too.
    """
    results = health.results()
    problems = [each.problem for each in results.values() if each.problem and each.is_critical]
    passed = not problems
    checks = {name: each.text for name, each in results.items()}
    body = _body(
        broker,
        "pass" if passed else "fail",
        health.message if passed else "; ".join(problems),
        checks if verbose is not None and verbose.lower() not in ("false", "0") else None,
    )
    return Response(body, status_code=200 if passed else 503)


def _body(
    broker: Broker, status: str, message: str, checks: dict[str, str] | None = None
) -> HealthBody:
    return HealthBody(
        status, time_text(broker.environment.clock.now()), _uptime_seconds(broker), message, checks
    )


def _uptime_seconds(broker: Broker) -> float:
    return max(0, broker.environment.clock.now() - broker.started_at) / 1000


@routes.get("/version", "Version")
async def get_version() -> VersionBody:
    return VERSION


@routes.get("/stats", "Numbers at a glance")
async def get_stats(broker: TheBroker) -> StatsBody:
    """Messages and bytes of the partitions that were used since the start, by topic."""
    stats = {
        str(topic.name): TopicStats(topic.name, topic.partitions, 0, 0, 0)
        for topic in broker.topics()
    }
    for partition in broker.partitions:
        before = stats.get(partition.topic)
        if before is not None:
            log = partition.log
            stats[partition.topic] = TopicStats(
                before.name,
                before.partitions,
                before.open_partitions + 1,
                before.total_messages + log.high_watermark - log.start_offset,
                before.total_size_bytes + log.size,
            )
    return StatsBody(
        node_id=broker.config.node_id,
        cluster_id=broker.cluster_id,
        uptime_seconds=_uptime_seconds(broker),
        topics=len(stats),
        partitions=sum(each.partitions for each in stats.values()),
        open_partitions=sum(each.open_partitions for each in stats.values()),
        total_size_bytes=sum(each.total_size_bytes for each in stats.values()),
        topic_stats=stats,
    )


@routes.get("/metrics", "Metrics for Prometheus", media_type=CONTENT_TYPE.removesuffix(CHARSET))
async def get_metrics(
    metrics: TheMetrics,
    accept: Annotated[
        str,
        HeaderParameter(name="Accept", description="`application/openmetrics-text` has exemplars."),
    ] = "",
) -> Response[bytes]:
    """In Prometheus' text format, or as OpenMetrics with trace ids of examples."""
    text, kind = await metrics.scrape(accept)
    return Response(text, media_type=kind.removesuffix(CHARSET))
