"""The application of a node in a cluster: what belongs to another node is carried out there.

On a single broker there is none, and requests go straight to the application.
"""

from functools import partial

from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils.path import normalize_path

from goqueue.broker import Broker
from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.model.errors import BatchTooLarge, GoQueueError
from goqueue.model.ids import NodeId
from goqueue.server.http.asgi_types import Receive, Scope, Send
from goqueue.server.http.forwarding.forwarder import FindNode, Forwarder, send_error
from goqueue.server.http.forwarding.routing_table import PATH_NAMES, Place, node_of, place_of
from goqueue.server.http.forwarding.transaction_routing import ReadBody, find_coordinator


class RoutedApp:
    def __init__(self, app: Litestar, broker: Broker, others: OtherNodes) -> None:
        self._app = app
        self._broker = broker
        self._node_id = others.node_id
        self._forwarder = Forwarder(broker.cluster.peers, broker.environment.random)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            find, receive = await self._route(scope, receive)
            target = find()
        except GoQueueError as error:
            await send_error(send, error)
            return
        except HTTPException as error:  # a body that unpacks to more than is allowed
            await send_error(send, BatchTooLarge(error.detail or "the body is too large"))
            return
        if target is None:
            await self._serve(scope, receive, send)
        else:
            await self._forwarder.forward(find, self._serve, scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)  # type: ignore[arg-type] # litestar's own names

    async def _route(self, scope: Scope, receive: Receive) -> tuple[FindNode, Receive]:
        """How to find the node that it belongs to, and from where its body comes.

        None is found: it is for this node to answer, or to refuse.
        """
        try:
            path = normalize_path(scope["path"])
            found = self._app.asgi_router.handle_routing(path, scope["method"])
        except HTTPException:
            return _find_nobody, receive
        _, _, _, parameters, path_template = found
        scope["path_template"] = path_template  # for the metrics, also of what is passed on
        find: FindNode = partial(node_of, self._broker, path_template, parameters)
        if place_of(path_template) is Place.TRANSACTION and not parameters.keys() & PATH_NAMES:
            body = ReadBody(receive)
            whole = await body.read()
            if whole is None:  # its client has gone
                return _find_nobody, body
            find, receive = await find_coordinator(self._broker, scope, whole), body
        return partial(self._find_elsewhere, find), receive

    def _find_elsewhere(self, find: FindNode) -> NodeId | None:
        found = find()
        return None if found == self._node_id else found


def _find_nobody() -> None:
    return None
