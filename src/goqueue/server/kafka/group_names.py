"""Names of groups and of their members, checked as Kafka does."""

from goqueue.groups.errors import InvalidGroupId
from goqueue.model.ids import GroupId
from goqueue.server.kafka.context import Context


def named_group(name: str) -> GroupId:
    """Any text but none."""
    if not name:
        raise InvalidGroupId("a group has a name")
    return GroupId(name)


def client_id(context: Context) -> str:
    return context.header.client_id or ""


def client_host(context: Context) -> str:
    """With a slash, as Java writes an address without a host name; tools know it so."""
    return "/" + context.peer.rpartition(":")[0]
