"""The HTTP application: all routes at `/`, and those of the API at `/v1` too."""

from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException

from goqueue.broker import Broker
from goqueue.broker.merged import MergedReader
from goqueue.broker.messages import Messages
from goqueue.model.config import HttpConfig
from goqueue.model.errors import GoQueueError
from goqueue.server.http import document, errors, health, messages, pages, topics
from goqueue.server.http.document import openapi_config
from goqueue.server.http.polls import LongPolls
from goqueue.server.http.readiness import Health
from goqueue.server.metrics import Metrics


def create_app(
    broker: Broker, config: HttpConfig, metrics: Metrics, health_state: Health, polls: LongPolls
) -> Litestar:
    api: list[Any] = [*topics.HANDLERS, *messages.HANDLERS]
    verbs = Messages(broker)
    given = {
        "broker": broker,
        "verbs": verbs,
        "merged": MergedReader(broker, verbs),
        "metrics": metrics,
        "health": health_state,
        "polls": polls,
    }
    return Litestar(
        [
            *pages.HANDLERS,
            *document.HANDLERS,
            *health.HANDLERS,
            *api,
            Router("/v1", route_handlers=api, include_in_schema=False),
        ],
        dependencies={name: _constant(value) for name, value in given.items()},
        exception_handlers={
            errors.Detailed: errors.on_detailed,
            GoQueueError: errors.on_goqueue_error,
            ValidationException: errors.on_validation_error,
            HTTPException: errors.on_http_error,
            Exception: errors.on_bug,
        },
        request_max_body_size=config.body_bytes_max,
        openapi_config=openapi_config(),
        logging_config=None,
        debug=False,
    )


def _constant(value: object) -> Provide:
    return Provide(lambda: value, sync_to_thread=False, use_cache=True)
