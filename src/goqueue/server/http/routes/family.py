"""The operations of a family: each is added with what the API document says of it.

routes = Routes("topics")

@routes.delete("/topics/{topic:str}", "Delete a topic and its messages", 404, 422)
async def delete_topic(broker: TheBroker, topic: TopicPath) -> TopicDeleted: ...
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from litestar import delete, get, patch, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from goqueue.api.errors import ErrorBody

Handler = TypeVar("Handler", bound=Callable[..., Any])

ALWAYS: Final = (400, 403, 421, 503, 504)
MEANINGS: Final = {
    400: "The request is malformed; `message` says where.",
    403: "A page of another origin made a browser send this.",
    404: "No such topic or partition.",
    406: "The request does not accept what this operation answers with.",
    409: "It exists already.",
    413: "Larger than this server or topic takes.",
    415: "A body of this type is not understood.",
    416: "The offset is before the first or after the last one; `details` has both.",
    421: "The server does not answer to this `Host`: see its setting `http.hosts`.",
    422: "Well-formed, but this server's limits or switches say no; or a producer sent records that"
    " cannot be decoded, and `details.continue_at` is the offset to go on from.",
    429: "The consumer or its group holds as many messages as it may: ack some first.",
    500: "Stored data is damaged; `details.continue_at` is the offset to go on from.",
    503: "Overloaded, stopping, or the disk failed; or the node that it belongs to is not reached,"
    " and nothing was done. With Retry-After when trying again may help.",
    504: "Not durable in time (setting `http.publish_timeout_ms`): it is written and may yet be. Or"
    " another node of the cluster was asked and did not answer: it may have been carried out.",
    507: "The disk is full.",
}


def query(description: str, pattern: str | None = None, **bounds: Any) -> Any:
    """A parameter of the query, as the API document describes it."""
    if pattern is not None:
        bounds["schema_extra"] = {"pattern": pattern}
    return QueryParameter(description=description, **bounds)


class Routes:
    """`meanings` are what statuses mean in this family, where that is something of its own;
    `write_meanings` those of operations that change something.
    """

    def __init__(
        self,
        tag: str,
        meanings: Mapping[int, str] | None = None,
        write_meanings: Mapping[int, str] | None = None,
    ) -> None:
        self.handlers: list[HTTPRouteHandler] = []
        self._tag = tag
        self._meanings = {**MEANINGS, **(meanings or {})}
        self._write_meanings = {**self._meanings, **(write_meanings or {})}

    def get(
        self, path: str | list[str], summary: str, *statuses: int, **more: Any
    ) -> Callable[[Handler], Handler]:
        """`statuses` are the errors that it answers beside those that every operation does."""
        return self._add(get, path, summary, statuses, more)

    def post(
        self, path: str | list[str], summary: str, *statuses: int, **more: Any
    ) -> Callable[[Handler], Handler]:
        return self._add(post, path, summary, (413, *statuses), {"status_code": 200, **more})

    def put(self, path: str, summary: str, *statuses: int) -> Callable[[Handler], Handler]:
        return self._add(put, path, summary, (413, *statuses), {})

    def patch(self, path: str, summary: str, *statuses: int) -> Callable[[Handler], Handler]:
        return self._add(patch, path, summary, (413, *statuses), {})

    def delete(
        self, path: str, summary: str, *statuses: int, **more: Any
    ) -> Callable[[Handler], Handler]:
        return self._add(delete, path, summary, (413, *statuses), {"status_code": 200, **more})

    def _add(
        self,
        method: Callable[..., Callable[[Any], HTTPRouteHandler]],
        path: str | list[str],
        summary: str,
        statuses: tuple[int, ...],
        more: Mapping[str, Any],
    ) -> Callable[[Handler], Handler]:
        told = {**self._errors(statuses), **more.get("responses", {})}
        operation = method(path, tags=[self._tag], summary=summary, **{**more, "responses": told})

        def add(handler: Handler) -> Handler:
            self.handlers.append(operation(handler))
            return handler

        return add

    def _errors(self, statuses: tuple[int, ...]) -> dict[int, ResponseSpec]:
        known = self._write_meanings if 413 in statuses else self._meanings
        return {
            status: ResponseSpec(ErrorBody, description=known[status], generate_examples=False)
            for status in sorted({*ALWAYS, *statuses})
        }
