"""The dependencies of a handler are resolved one after the other, without tasks.

Litestar starts a task for each of a batch, as they could wait for something.  Ours are constants,
or made of the query, and the tasks cost more than the rest of a small request.  This reaches into
Litestar: `tests/unit/server/http/test_dependency_order.py` notices when it has changed there.
"""

from litestar import Litestar
from litestar.routes import HTTPRoute


def resolve_in_turn(app: Litestar) -> None:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for _, model in route.route_handler_map.values():
                found = [each for batch in model.dependency_batches for each in batch]
                model.dependency_batches = [{each} for each in found]
