"""What Confluent's paths of the schema registry demand; they are one route to the application."""

import re
from typing import Final

from goqueue.schemas import subject_name
from goqueue.security import CLUSTER_NAME, Operation, ResourceType
from goqueue.server.http.registry import configuration, operations
from goqueue.server.http.registry.calls import find_operation
from goqueue.server.http.security.demands import NOTHING, Demand, subject_topic

__all__ = ["REGISTRY_TEMPLATES", "configuration", "operations", "registry_demands"]  # add theirs

REGISTRY_TEMPLATES: Final = frozenset({"/registry", "/registry/{rest}"})

_OF_ALL: Final = re.compile(r"/(?:config|mode)")
_FOR_ALL: Final = re.compile(
    r"/(?:config|mode|subjects|schemas|schemas/types|)"
    r"|/schemas/ids/\d+(?:/(?:schema|subjects|versions))?"
)
_READS: Final = ("GET", "HEAD", "OPTIONS")


def registry_demands(method: str, rest: str) -> list[Demand]:
    """The subject is the one that the operation finds in the path; raises `InvalidSubject`."""
    path = "/" + rest.strip("/")
    found = find_operation("GET" if method in _READS else method, path)
    if found is not None and "subject" in found[1]:
        topic = subject_topic(subject_name(found[1]["subject"]))
        return [Demand(_operation(method, path), ResourceType.TOPIC, lambda _: [topic])]
    if _OF_ALL.fullmatch(path) and method not in _READS:
        return _cluster(Operation.ALTER_CONFIGS)
    # Lists show what one may see, and a schema by its id is for who may see a subject that has it:
    # the handlers find that out.
    return NOTHING if _FOR_ALL.fullmatch(path) else _cluster(Operation.DESCRIBE)


def _cluster(operation: Operation) -> list[Demand]:
    return [Demand(operation, ResourceType.CLUSTER, lambda _: [CLUSTER_NAME])]


def _operation(method: str, path: str) -> Operation:
    if method == "DELETE":
        return Operation.DELETE
    is_lookup = path.startswith("/compatibility/") or not path.endswith("/versions")
    if method in _READS or (method == "POST" and is_lookup):
        return Operation.DESCRIBE
    return Operation.WRITE
