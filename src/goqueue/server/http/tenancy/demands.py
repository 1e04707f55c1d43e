"""What routes demand of a tenant's users where it is something else than of others.

Schedules are the cluster's; those of a tenant are in its space, and demand what a topic of the same
name would.
"""

from collections.abc import Mapping
from typing import Final

from goqueue.server.http.security.demands import (
    ALTER,
    DESCRIBE,
    NOTHING,
    TOPIC,
    WRITE,
    Demand,
    body,
    path,
)

_TOPIC_IN_BODY: Final = Demand(WRITE, TOPIC, body("topic"), needs_body=True)
_ALTER: Final = [Demand(ALTER, TOPIC, path("name"))]
_DESCRIBE: Final = [Demand(DESCRIBE, TOPIC, path("name"))]

TENANT_DEMANDS: Final[Mapping[str, list[Demand]]] = {
    "POST /schedules": [Demand(ALTER, TOPIC, body("name"), needs_body=True), _TOPIC_IN_BODY],
    "PUT /schedules/{name}": [*_ALTER, _TOPIC_IN_BODY],
    "DELETE /schedules/{name}": _ALTER,
    "POST /schedules/{name}/pause": _ALTER,
    "POST /schedules/{name}/resume": _ALTER,
    "POST /schedules/{name}/run": _ALTER,
    "GET /schedules/{name}": _DESCRIBE,
    "GET /schedules/{name}/preview": _DESCRIBE,
    "GET /schedules/{name}/runs": _DESCRIBE,
    "GET /schedules": NOTHING,  # shows the tenant's own
}
