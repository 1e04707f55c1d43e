"""`goqueue acl`: access control lists, in the words of Kafka's own tool."""

from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import msgspec
import typer

from goqueue.api.security import AclBody, OperationName
from goqueue.cli.command import command
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.output import rows_of, show, show_text
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Say who may do what: access control lists."
)

OPERATIONS: Final = {name.replace("_", ""): name for name in get_args(OperationName)}
HEADINGS: Final = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST")
CLUSTER: Final = "kafka-cluster"

Names = tuple[str, ...]


class Resources(msgspec.Struct, frozen=True):
    """Which ones; several are meant one by one."""

    topic: Annotated[
        Names, option("A topic; * is every one. May be repeated.", metavar="NAME")
    ] = ()
    group: Annotated[Names, option("A consumer group. May be repeated.", metavar="NAME")] = ()
    transactional_id: Annotated[
        Names, option("A transactional id. May be repeated.", metavar="ID")
    ] = ()
    cluster: Annotated[bool, option("The cluster itself.")] = False

    def pairs(self) -> list[tuple[str, str]]:
        found = [("topic", each) for each in self.topic]
        found += [("group", each) for each in self.group]
        found += [("transactional_id", each) for each in self.transactional_id]
        return found + ([("cluster", CLUSTER)] if self.cluster else [])


class Entries(msgspec.Struct, frozen=True):
    """Which entries: one for each principal, operation and resource."""

    principal: Annotated[
        Names, option("User:NAME; User:* is everybody. May be repeated.", metavar="PRINCIPAL")
    ] = ()
    operation: Annotated[
        Names,
        option(
            "read, write, create, delete, alter, describe, describe-configs, alter-configs,"
            " idempotent-write, cluster-action or all. May be repeated.",
            metavar="OPERATION",
        ),
    ] = ()
    deny: Annotated[bool, option("Forbid it, whatever else allows it.")] = False
    prefixed: Annotated[bool, option("Every resource whose name begins so.")] = False
    host: Annotated[str, option("Only from this IP address of a client.", metavar="ADDRESS")] = "*"

    def bodies(self, resources: Resources) -> list[AclBody]:
        pairs = resources.pairs()
        missing = [
            flag
            for flag, given in (
                ("--principal", self.principal),
                ("--operation", self.operation),
                ("--topic, --group, --transactional-id or --cluster", pairs),
            )
            if not given
        ]
        if missing:
            raise UsageFailure(f"what is missing: {'; '.join(missing)}")
        return [
            self._body(principal, operation, kind, name)
            for principal in self.principal
            for operation in self.operation
            for kind, name in pairs
        ]

    def _body(self, principal: str, operation: str, kind: Any, name: str) -> AclBody:
        return AclBody(
            principal=principal_of(principal),
            operation=operation_of(operation),
            resource_type=kind,
            resource_name=name,
            pattern="prefixed" if self.prefixed and kind != "cluster" else "literal",
            permission="deny" if self.deny else "allow",
            host=self.host,
        )


@command(app, "list")
def list_acls(
    client: "Client",
    resources: Resources,
    principal: Annotated[
        str | None, option("Only of this one: User:NAME.", metavar="PRINCIPAL")
    ] = None,
    operation: Annotated[
        str | None, option("Only for this operation.", metavar="OPERATION")
    ] = None,
) -> None:
    """List access control entries; for a resource, all that match its name."""
    common: Any = {
        "principal": principal_of(principal) if principal else None,
        "operation": operation_of(operation) if operation else None,
    }
    pairs: list[Any] = resources.pairs()
    if not pairs:
        _show(client.acls(**common))
        return
    found = [
        each
        for kind, name in pairs
        for each in client.acls(resource_type=kind, resource_name=name, **common)
    ]
    _show(list(dict.fromkeys(found)))


@command(app, "add")
def add(client: "Client", entries: Entries, resources: Resources) -> None:
    """Allow something, or forbid it with --deny, from the next request on."""
    _show(client.add_acls(*entries.bodies(resources)))


@command(app, "remove")
def remove(client: "Client", entries: Entries, resources: Resources, force: Force = False) -> None:
    """Remove entries, written exactly as they were added."""
    bodies = entries.bodies(resources)
    count = "this entry" if len(bodies) == 1 else f"these {len(bodies)} entries"
    confirm(f"Remove {count}?", "remove", force=force)
    removed = client.remove_acls(*bodies)
    if not removed:
        raise Failure("there is no such entry: see `goqueue acl list`", ExitCode.NOT_FOUND)
    entry = "entry" if len(removed) == 1 else "entries"
    show_text(removed, f"removed {len(removed)} {entry}")


def operation_of(text: str) -> Any:
    """`describe-configs`, `DescribeConfigs` and `describe_configs` are the same."""
    found = OPERATIONS.get(text.lower().replace("-", "").replace("_", ""))
    if found is None:
        known = ", ".join(name.replace("_", "-") for name in OPERATIONS.values())
        raise UsageFailure(f"--operation {text}: choose one of {known}")
    return found


def principal_of(text: str) -> str:
    return text if text.startswith("User:") else f"User:{text}"


def describe(acl: AclBody) -> str:
    """In one line."""
    pattern = "" if acl.pattern == "literal" else f" ({acl.pattern})"
    host = "" if acl.host == "*" else f" from {acl.host}"
    resource = f"{acl.resource_type} {acl.resource_name}{pattern}"
    return f"{acl.permission} {acl.operation} on {resource}{host}"


def _show(found: list[AclBody]) -> None:
    names = ("principal", "permission", "operation", "resource_type")
    more = ("resource_name", "pattern", "host")
    show(found, HEADINGS, rows_of(found, *names, *more), empty="no access control entries")
