"""What Confluent's paths of the schema registry demand; they are one route to the application."""

import re
from typing import Final
from urllib.parse import unquote

from goqueue.security import CLUSTER_NAME, Operation, ResourceType
from goqueue.server.http.security.demands import NOTHING, Demand, subject_topic

REGISTRY_TEMPLATES: Final = frozenset({"/registry", "/registry/{rest}"})

# A subject's name may have slashes in it.
_OF_SUBJECT: Final = re.compile(
    r"/?(?:compatibility/)?(?:subjects|config|mode)/(.+?)"
    r"(?:/metadata|/versions(?:/[^/]+(?:/.*)?)?)?/?"
)
_OF_ALL: Final = re.compile(r"/?(?:config|mode)/?")
_FOR_ALL: Final = re.compile(
    r"/?|/?(?:config|mode|subjects|schemas|schemas/types)/?"
    r"|/?schemas/ids/\d+(?:/(?:schema|subjects|versions))?/?"
)
_READS: Final = ("GET", "HEAD", "OPTIONS")


def registry_demands(method: str, rest: str) -> list[Demand]:
    found = _OF_SUBJECT.fullmatch(rest)
    if found is not None:
        topic = subject_topic(unquote(found[1]))
        return [Demand(_operation(method, rest), ResourceType.TOPIC, lambda _: [topic])]
    if _OF_ALL.fullmatch(rest) and method not in _READS:
        return _cluster(Operation.ALTER_CONFIGS)
    # Lists show what one may see, and a schema by its id is for who may see a subject that has it:
    # the handlers find that out.
    return NOTHING if _FOR_ALL.fullmatch(rest) else _cluster(Operation.DESCRIBE)


def _cluster(operation: Operation) -> list[Demand]:
    return [Demand(operation, ResourceType.CLUSTER, lambda _: [CLUSTER_NAME])]


def _operation(method: str, rest: str) -> Operation:
    if method == "DELETE":
        return Operation.DELETE
    path = rest.strip("/")
    is_lookup = path.startswith("compatibility/") or not path.endswith("/versions")
    if method in _READS or (method == "POST" and is_lookup):
        return Operation.DESCRIBE
    return Operation.WRITE
