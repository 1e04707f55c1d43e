"""The HTTP application.  The gate before it serves the API's routes at `/v1` too."""

from collections.abc import Mapping
from typing import Final

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig

from goqueue.broker import Broker
from goqueue.broker.groups.admin import GroupAdmin
from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.messages.merged_reader import MergedReader
from goqueue.broker.messages.publish import Messages
from goqueue.broker.messages.transactional_publish import TransactionMessages
from goqueue.broker.security.audit_reader import AuditReader
from goqueue.broker.traces.service import Traces
from goqueue.model.config import HttpConfig
from goqueue.model.errors import GoQueueError
from goqueue.server.http import errors
from goqueue.server.http.asgi.dependency_order import resolve_in_turn
from goqueue.server.http.asgi.long_polls import LongPolls
from goqueue.server.http.asgi.readiness import Health
from goqueue.server.http.openapi import page
from goqueue.server.http.openapi.document import ApiDocument
from goqueue.server.http.registry import listener as registry
from goqueue.server.http.routes import (
    admin,
    application_transactions,
    audit,
    cluster,
    cluster_admin,
    cluster_balance,
    cluster_upkeep,
    compaction,
    coordinators,
    delays,
    dlq,
    group_admin,
    groups,
    health,
    messages,
    queue_admin,
    queue_settings,
    queue_stream,
    queues,
    quotas,
    schedules,
    schemas,
    security,
    tenants,
    topics,
    traces,
    transactional_messages,
    transactions,
)
from goqueue.server.http.routes.sent_events import SentEvents
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog

API: Final[list[HTTPRouteHandler]] = [
    *topics.routes.handlers,
    *messages.routes.handlers,
    *groups.routes.handlers,
    *group_admin.routes.handlers,
    *queues.routes.handlers,
    *queue_settings.routes.handlers,
    *queue_admin.routes.handlers,
    *queue_stream.routes.handlers,
    *dlq.routes.handlers,
    *delays.routes.handlers,
    *traces.routes.handlers,
    *compaction.routes.handlers,
    *transactions.routes.handlers,
    *transactional_messages.routes.handlers,
    *application_transactions.routes.handlers,
    *schemas.routes.handlers,
    *schedules.routes.handlers,
    *admin.routes.handlers,
    *security.routes.handlers,
    *quotas.routes.handlers,
    *audit.routes.handlers,
    *tenants.routes.handlers,
    *cluster.routes.handlers,
    *cluster_admin.routes.handlers,
    *cluster_balance.routes.handlers,
    *cluster_upkeep.routes.handlers,
    *coordinators.routes.handlers,
]

# The first words of their paths.
API_ROOTS: Final = frozenset(path.split("/")[1] for each in API for path in each.paths)


def create_app(
    broker: Broker,
    config: HttpConfig,
    metrics: Metrics,
    readiness: Health,
    polls: LongPolls,
    server_log: ServerLog,
) -> Litestar:
    verbs = Messages(broker)
    given = {
        "broker": broker,
        "verbs": verbs,
        "merged": MergedReader(broker, verbs),
        "members": GroupMembers(broker),
        "overview": GroupAdmin(broker),
        "queues": broker.queues,
        "transaction_messages": TransactionMessages(broker),
        "traces": Traces(broker),
        "metrics": metrics,
        "health": readiness,
        "polls": polls,
        "server_log": server_log,
        "audit_reader": AuditReader(broker),
        "sent_events": SentEvents(f"{broker.started_at:x}"),
    }

    def make_app(openapi_config: OpenAPIConfig | None) -> Litestar:
        return _application({**given, "document": document}, config, openapi_config)

    document = ApiDocument(make_app)
    return make_app(None)


def _application(
    given: Mapping[str, object], config: HttpConfig, openapi_config: OpenAPIConfig | None
) -> Litestar:
    api = Router("/", route_handlers=API, before_request=errors.refuse_unknown_parameters)
    app = Litestar(
        [*page.HANDLERS, *health.routes.handlers, api, registry.ROUTER],
        dependencies={name: _constant(value) for name, value in given.items()},
        exception_handlers={
            errors.Detailed: errors.on_detailed,
            GoQueueError: errors.on_goqueue_error,
            ValidationException: errors.on_validation_error,
            HTTPException: errors.on_http_error,
            UnicodeDecodeError: errors.on_bad_text,
            RecursionError: errors.on_bad_text,
            Exception: errors.on_bug,
        },
        request_max_body_size=config.body_bytes_max,
        openapi_config=openapi_config,
        logging_config=None,
        debug=False,
    )
    resolve_in_turn(app)
    return app


def allowed_methods(app: Litestar, path: str) -> list[str]:
    """What may be done at a path; nothing when there is none."""
    found = []
    for method in ("DELETE", "GET", "PATCH", "POST", "PUT"):
        try:
            app.asgi_router.handle_routing(path=path, method=method)
        except HTTPException:
            continue
        found.append(method)
    return found


def _constant(value: object) -> Provide:
    return Provide(lambda: value, sync_to_thread=False, use_cache=True)
