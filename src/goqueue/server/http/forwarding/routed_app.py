"""The application of a node in a cluster: what belongs to another node is carried out there.

On a single broker there is none, and requests go straight to the application.
"""

from functools import partial

from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils.path import normalize_path

from goqueue.broker import Broker
from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.server.http.forwarding.forwarder import Forwarder, Receive, Scope, Send, send_error
from goqueue.server.http.forwarding.routing_table import node_of


class RoutedApp:
    def __init__(self, app: Litestar, broker: Broker, others: OtherNodes) -> None:
        self._app = app
        self._broker = broker
        self._node_id = others.node_id
        self._forwarder = Forwarder(broker.cluster.peers, broker.environment.random)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            target = self._find_node(scope)
        except GoQueueError as error:
            await send_error(send, error)
            return
        if target is None:
            await self._serve(scope, receive, send)
        else:
            find = partial(self._find_node, scope)
            await self._forwarder.forward(find, self._serve, scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)  # type: ignore[arg-type] # litestar's own names

    def _find_node(self, scope: Scope) -> NodeId | None:
        """None: it is for this node to answer, or to refuse."""
        try:
            path = normalize_path(scope["path"])
            found = self._app.asgi_router.handle_routing(path, scope["method"])
        except HTTPException:
            return None
        _, _, _, parameters, path_template = found
        scope["path_template"] = path_template  # for the metrics, also of what is passed on
        found_node = node_of(self._broker, path_template, parameters)
        return None if found_node == self._node_id else found_node
