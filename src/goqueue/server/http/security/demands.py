"""What each route demands of whoever calls it: one table, which a test holds against the routes.

    "GET /topics/{topic}/messages": READ of the topic that the path names
    "POST /topics":                 CREATE of the topic that the body names

A route that is not in the table is refused to everybody but administrators.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from goqueue.security import ANY_NAME, CLUSTER_NAME, Operation, ResourceType

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS


class Asked(NamedTuple):
    """What a request names."""

    path: Mapping[str, Any]
    query: Mapping[str, list[str]]
    body: Any  # of JSON; None without one, and when it is none


Names = Callable[[Asked], Iterable[str]]


class Demand(NamedTuple):
    operation: Operation
    resource_type: ResourceType
    names: Names
    needs_body: bool = False


def template_text(template: str) -> str:
    """`/topics/{topic:str}` without its types."""
    return "/".join(
        f"{{{each[1:-1].partition(':')[0]}}}" if each.startswith("{") else each
        for each in template.split("/")
    )


def path(name: str) -> Names:
    return lambda asked: [str(asked.path[name])]


def query(name: str) -> Names:
    return lambda asked: asked.query.get(name, ())


def body(*names: str) -> Names:
    """Texts in the body, and in lists of objects in it: `body("offsets", "topic")`."""

    def find(asked: Asked) -> Iterator[str]:
        return _find(asked.body, names)

    return find


def _find(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _find(each, names)
    elif not names:
        if isinstance(value, str):
            yield value
    elif isinstance(value, dict) and names[0] in value:
        yield from _find(value[names[0]], names[1:])


def body_keys(name: str) -> Names:
    """The keys of an object in the body."""

    def find(asked: Asked) -> Iterator[str]:
        found = asked.body.get(name) if isinstance(asked.body, dict) else None
        return iter(found if isinstance(found, dict) else ())

    return find


def receipts(asked: Asked) -> Iterator[str]:
    """The topics of receipts, whose first word it is."""
    for name in ("receipt_handle", "receipt_handles", "receipt", "receipts"):
        for handle in _find(asked.body, (name,)):
            yield handle.partition(":")[0]


def subject(asked: Asked) -> Iterator[str]:
    """The topic that a schema's subject is for; the subject itself, when it names a record."""
    yield subject_topic(str(asked.path["subject"]))


def subject_topic(name: str) -> str:
    return name.removesuffix("-value").removesuffix("-key")


def _cluster(operation: Operation) -> list[Demand]:
    return [Demand(operation, ResourceType.CLUSTER, lambda _: [CLUSTER_NAME])]


def _topic(*operations: Operation) -> list[Demand]:
    return [Demand(each, TOPIC, path("topic")) for each in operations]


def _group(operation: Operation) -> list[Demand]:
    return [Demand(operation, GROUP, path("group"))]


def _transactional(names: Names, operation: Operation = WRITE, *, needs_body: bool) -> Demand:
    return Demand(operation, ResourceType.TRANSACTIONAL_ID, names, needs_body)


def _transactional_id(asked: Asked) -> list[str]:
    """Without one the request goes by the producer's number: then it may be any."""
    return list(_find(asked.body, ("transactional_id",))) or [ANY_NAME]


def _find_subscriptions(asked: Asked) -> list[str]:
    """A pattern may match any topic."""
    has_pattern = any(_find(asked.body, ("topics_regex",)))
    return [*_find(asked.body, ("topics",)), *([ANY_NAME] if has_pattern else [])]


_IN_BODY: Final = _transactional(_transactional_id, needs_body=True)
_WRITE_TOPIC_IN_BODY: Final = Demand(WRITE, TOPIC, body("topic"), needs_body=True)
_OF_RECEIPTS: Final = Demand(READ, TOPIC, receipts, needs_body=True)
_APPLICATION: Final = [_transactional(path("application"), needs_body=False)]
_SUBJECT_READ: Final = [Demand(DESCRIBE, TOPIC, subject)]
_SUBJECT_WRITE: Final = [Demand(WRITE, TOPIC, subject)]
_SUBJECT_DELETE: Final = [Demand(DELETE, TOPIC, subject)]
NOTHING: Final[list[Demand]] = []  # whoever has logged in; a list shows only what one may see

DEMANDS: Final[Mapping[str, list[Demand]]] = {
    # --- topics and messages
    "GET /topics": NOTHING,
    "POST /topics": [Demand(CREATE, TOPIC, body("name"), needs_body=True)],
    "GET /topics/{topic}": _topic(DESCRIBE),
    "DELETE /topics/{topic}": _topic(DELETE),
    "GET /topics/{topic}/partitions": _topic(DESCRIBE),
    "POST /topics/{topic}/partitions": _topic(ALTER),
    "POST /admin/topics/{topic}/partitions": _topic(ALTER),
    "GET /topics/{topic}/settings": _topic(DESCRIBE_CONFIGS),
    "PATCH /topics/{topic}/settings": _topic(ALTER_CONFIGS),
    "GET /topics/{topic}/messages": _topic(READ),
    "POST /topics/{topic}/messages": _topic(WRITE),
    "GET /topics/{topic}/partitions/{partition}/messages": _topic(READ),
    "DELETE /topics/{topic}/partitions/{partition}/messages": _topic(DELETE),
    "GET /topics/{topic}/partitions/{partition}/offsets": _topic(DESCRIBE),
    "POST /topics/{topic}/partitions/{partition}/compaction": _topic(ALTER, WRITE),
    "POST /topics/{topic}/partitions/{partition}/compaction/seal": _topic(ALTER, WRITE),
    # --- dead letters
    "GET /topics/{topic}/delayed": _topic(DESCRIBE),
    "GET /topics/{topic}/delayed/{partition}/{offset}": _topic(READ),
    "DELETE /topics/{topic}/delayed/{partition}/{offset}": _topic(WRITE),
    "POST /topics/{topic}/delayed/{partition}/{offset}": _topic(WRITE),
    "GET /topics/{topic}/dlq": _topic(READ),
    "DELETE /topics/{topic}/dlq": _topic(DELETE),
    "POST /topics/{topic}/dlq/redrive": [
        *_topic(READ, WRITE),
        Demand(WRITE, TOPIC, body("to"), needs_body=True),
    ],
    "GET /topics/{topic}/dlq/redrives": _topic(DESCRIBE),
    "GET /topics/{topic}/dlq/redrives/{redrive}": _topic(DESCRIBE),
    "DELETE /topics/{topic}/dlq/redrives/{redrive}": _topic(WRITE),
    "GET /topics/{topic}/dlq/taken": _topic(DESCRIBE),
    "GET /topics/{topic}/dlq/{partition}/{offset}": _topic(READ),
    # --- queues
    "POST /queues/{topic}/receive": [
        *_topic(READ),
        Demand(READ, GROUP, body("group"), needs_body=True),
    ],
    "GET /queues/{topic}/stream": [*_topic(READ), Demand(READ, GROUP, query("group"))],
    "GET /queues/{topic}/peek": [*_topic(READ), Demand(DESCRIBE, GROUP, query("group"))],
    "POST /queues/{topic}/ack-range": [
        *_topic(READ),
        Demand(READ, GROUP, body("group"), needs_body=True),
    ],
    "POST /messages/ack": [_OF_RECEIPTS],
    "POST /messages/nack": [_OF_RECEIPTS],
    "POST /messages/reject": [_OF_RECEIPTS],
    "POST /messages/release": [_OF_RECEIPTS],
    "POST /messages/visibility": [_OF_RECEIPTS],
    "GET /priority/stats": _cluster(DESCRIBE),
    "GET /reliability/stats": _cluster(DESCRIBE),
    "GET /delay/stats": _cluster(DESCRIBE),
    "GET /traces": _cluster(DESCRIBE),
    "GET /traces/events": _cluster(DESCRIBE),
    "GET /traces/search": _cluster(DESCRIBE),
    "GET /traces/stats": _cluster(DESCRIBE),
    "GET /traces/{trace_id}": _cluster(DESCRIBE),
    "GET /messages/{topic}/{partition}/{offset}/journey": _topic(DESCRIBE),
    # --- schedules: they are the cluster's, and write to any topic for as long as they are there
    "POST /schedules": [_WRITE_TOPIC_IN_BODY, *_cluster(ALTER)],
    "PUT /schedules/{name}": [_WRITE_TOPIC_IN_BODY, *_cluster(ALTER)],
    "POST /schedules/preview": NOTHING,
    **dict.fromkeys(
        (
            "DELETE /schedules/{name}",
            "POST /schedules/{name}/pause",
            "POST /schedules/{name}/resume",
            "POST /schedules/{name}/run",
        ),
        _cluster(ALTER),
    ),
    **dict.fromkeys(
        (
            "GET /schedules",
            "GET /schedules/{name}",
            "GET /schedules/{name}/preview",
            "GET /schedules/{name}/runs",
        ),
        _cluster(DESCRIBE),
    ),
    # --- groups
    "GET /groups": NOTHING,
    "GET /groups/{group}": _group(DESCRIBE),
    "DELETE /groups/{group}": _group(DELETE),
    "GET /groups/{group}/assignment": _group(READ),
    "POST /groups/{group}/heartbeat": _group(READ),
    "GET /groups/{group}/in-flight": _group(DESCRIBE),
    "POST /groups/{group}/in-flight/extend": _group(READ),
    "POST /groups/{group}/in-flight/release": _group(READ),
    "POST /groups/{group}/join": [
        *_group(READ),
        Demand(READ, TOPIC, _find_subscriptions, needs_body=True),
    ],
    "GET /groups/{group}/lag": _group(DESCRIBE),
    "POST /groups/{group}/leave": _group(READ),
    "GET /groups/{group}/offsets": _group(DESCRIBE),
    "POST /groups/{group}/offsets": [
        *_group(READ),
        Demand(READ, TOPIC, body_keys("offsets"), needs_body=True),
    ],
    "POST /groups/{group}/offsets/reset": [
        *_group(READ),
        Demand(READ, TOPIC, body("topic"), needs_body=True),
    ],
    "GET /groups/{group}/poll": _group(READ),
    "GET /groups/{group}/queue": _group(DESCRIBE_CONFIGS),
    "PATCH /groups/{group}/queue": _group(ALTER_CONFIGS),
    "PUT /groups/{group}/queue": _group(ALTER_CONFIGS),
    "GET /groups/{group}/rebalance/stats": _group(DESCRIBE),
    "POST /groups/{group}/revoke": _group(READ),
    "GET /rebalance/stats": _cluster(DESCRIBE),
    # --- transactions
    "GET /transactions": _cluster(DESCRIBE),
    "GET /transactions/stats": _cluster(DESCRIBE),
    "POST /producers/init": [_IN_BODY],
    "POST /producers/{producer_id}/heartbeat": [_IN_BODY],
    "POST /transactions/begin": [_IN_BODY],
    "POST /transactions/commit": [_IN_BODY],
    "POST /transactions/abort": [_IN_BODY],
    "POST /transactions/add-partition": [_IN_BODY, _WRITE_TOPIC_IN_BODY],
    "POST /transactions/publish": [_IN_BODY, _WRITE_TOPIC_IN_BODY],
    "POST /transactions/messages": [_IN_BODY, _WRITE_TOPIC_IN_BODY],
    "POST /transactions/acks": [_IN_BODY, _OF_RECEIPTS],
    "POST /transactions/offsets": [
        _IN_BODY,
        Demand(READ, GROUP, body("group"), needs_body=True),
        Demand(READ, TOPIC, body("offsets", "topic"), needs_body=True),
    ],
    "GET /transactions/describe": [
        _transactional(query("transactional_id"), DESCRIBE, needs_body=False)
    ],
    "POST /transactions/force-abort": [_IN_BODY],
    "GET /transactions/ids/{transactional_id}": [
        _transactional(path("transactional_id"), DESCRIBE, needs_body=False)
    ],
    "POST /transactions/ids/{transactional_id}/abort": [
        _transactional(path("transactional_id"), needs_body=False)
    ],
    "GET /transactions/groups/{application}": _APPLICATION,
    "DELETE /transactions/groups/{application}": _APPLICATION,
    "POST /transactions/groups/{application}/abort": _APPLICATION,
    "POST /transactions/groups/{application}/attempts": _APPLICATION,
    "POST /transactions/groups/{application}/decide": _APPLICATION,
    "POST /transactions/groups/{application}/runs": _APPLICATION,
    # --- schemas
    "GET /schemas/subjects": NOTHING,
    "GET /schemas/subjects/{subject}/versions": _SUBJECT_READ,
    "GET /schemas/subjects/{subject}/versions/{version}": _SUBJECT_READ,
    "POST /schemas/subjects/{subject}": _SUBJECT_READ,
    "POST /schemas/subjects/{subject}/versions": _SUBJECT_WRITE,
    "POST /schemas/compatibility/subjects/{subject}/versions/{version}": _SUBJECT_READ,
    "DELETE /schemas/subjects/{subject}": _SUBJECT_DELETE,
    "DELETE /schemas/subjects/{subject}/versions/{version}": _SUBJECT_DELETE,
    "GET /schemas/ids/{schema_id}": NOTHING,  # see `SchemaVisibility`
    "GET /schemas/stats": _cluster(DESCRIBE),
    "GET /schemas/config": NOTHING,
    "PUT /schemas/config": _cluster(ALTER_CONFIGS),
    "GET /schemas/config/{subject}": _SUBJECT_READ,
    "PUT /schemas/config/{subject}": _SUBJECT_WRITE,
    # --- the cluster
    "GET /stats": _cluster(DESCRIBE),
    "GET /admin/coordinators": _cluster(DESCRIBE),
    "GET /admin/log-level": _cluster(DESCRIBE_CONFIGS),
    "PUT /admin/log-level": _cluster(ALTER_CONFIGS),
    "GET /admin/quotas": _cluster(DESCRIBE_CONFIGS),
    "PATCH /admin/quotas": _cluster(ALTER_CONFIGS),
    "DELETE /admin/quotas": _cluster(ALTER_CONFIGS),
    "GET /admin/reassignment": _cluster(DESCRIBE),
    "POST /admin/reassignment": _cluster(ALTER),
    "DELETE /admin/reassignment": _cluster(ALTER),
    "POST /admin/rebalance": _cluster(ALTER),
    "GET /cluster/events": _cluster(DESCRIBE),
    "GET /cluster/features": _cluster(DESCRIBE),
    "POST /cluster/features": _cluster(ALTER),
    "GET /cluster/health": _cluster(DESCRIBE),
    "POST /cluster/leader-election": _cluster(ALTER),
    "GET /cluster/nodes": _cluster(DESCRIBE),
    "DELETE /cluster/nodes/{node_id}": _cluster(ALTER),
    "POST /cluster/nodes/{node_id}/drain": _cluster(ALTER),
    "POST /cluster/nodes/{node_id}/restart": _cluster(ALTER),
    "POST /cluster/nodes/{node_id}/undrain": _cluster(ALTER),
    "GET /cluster/partition/{topic}/{partition}/info": _topic(DESCRIBE),
    "GET /cluster/quorum": _cluster(DESCRIBE),
    "GET /cluster/state": _cluster(DESCRIBE),
    "GET /cluster/topics": _cluster(DESCRIBE),
    # --- pages and figures
    "GET /": NOTHING,
    "GET /docs": NOTHING,
    "GET /docs/api.js": NOTHING,
    "GET /openapi.json": NOTHING,
    "GET /version": NOTHING,
    "GET /metrics": _cluster(DESCRIBE),
    "GET /health": NOTHING,
    "GET /healthz": NOTHING,
    "GET /livez": NOTHING,
    "GET /readyz": NOTHING,
}

# They create a topic that is missing (`topics.auto_create`).
CREATING: Final = frozenset(
    {
        "POST /topics/{topic}/messages",
        "POST /transactions/publish",
        "POST /transactions/messages",
        "POST /transactions/add-partition",
    }
)

# Backups have everything in them; users and ACLs are who may do everything.
ADMIN_ONLY: Final = frozenset(
    {
        "POST /admin/backups",
        "DELETE /admin/backups/{backup_id}",
        "GET /admin/audit",
        "GET /admin/tenants",
        "POST /admin/tenants",
        "GET /admin/tenants/{tenant}",
        "PATCH /admin/tenants/{tenant}",
        "DELETE /admin/tenants/{tenant}",
        "POST /admin/tenants/{tenant}/suspend",
        "POST /admin/tenants/{tenant}/activate",
        "POST /admin/tenants/{tenant}/disable",
        "GET /admin/tenants/{tenant}/quotas",
        "PUT /admin/tenants/{tenant}/quotas",
        "GET /admin/tenants/{tenant}/usage",
        "GET /admin/tenants/{tenant}/stats",
        "GET /admin/tenants/{tenant}/topics",
        "PUT /admin/tenants/{tenant}/users/{user}",
        "DELETE /admin/tenants/{tenant}/users/{user}",
        "GET /admin/users",
        "GET /admin/users/{user}",
        "PUT /admin/users/{user}",
        "DELETE /admin/users/{user}",
        "GET /admin/keys",
        "POST /admin/keys",
        "DELETE /admin/keys/{key_id}",
        "GET /admin/acls",
        "POST /admin/acls",
        "DELETE /admin/acls",
    }
)
