"""`goqueue tenant`: spaces of names with limits of their own."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from goqueue.api.tenants import TenantBody, TenantStatus
from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.cli.pairs import pairs
from goqueue.model.durations import parse_duration_ms
from goqueue.model.options import argument, option
from goqueue.model.sizes import parse_size

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Give each customer a space of its own."
)

TENANTS = completion(lambda client: [each.id for each in client.tenants()])
TenantId = Annotated[str, argument("The tenant's id.", metavar="TENANT", complete=TENANTS)]
Quotas = Annotated[
    list[str] | None,
    option(
        "A limit: storage_bytes=50GiB, topics=10, retention_ms=7d. 0: none. May be repeated.",
        "--quota",
        metavar="NAME=VALUE",
    ),
]
Name = Annotated[str | None, option("For people.", metavar="TEXT")]


@command(app, "create")
def create(
    client: "Client",
    tenant: Annotated[str, argument("3 to 64 of a-z, 0-9 and -.", metavar="TENANT")],
    name: Name = None,
    description: Name = None,
    quota: Quotas = None,
) -> None:
    """Create a tenant, with the default limits where none are given."""
    _show(client.create_tenant(tenant, name=name, description=description, quotas=_limits(quota)))


@command(app, "list")
def list_tenants(
    client: "Client",
    status: Annotated[
        TenantStatus | None, option("Only those: active, suspended or disabled.")
    ] = None,
) -> None:
    """List the tenants."""
    found = client.tenants(status=status)
    rows = rows_of(found, "id", "name", "status", lambda each: ", ".join(each.users) or "-")
    empty = "no tenants: goqueue tenant create TENANT"
    show(found, ("ID", "NAME", "STATUS", "USERS"), rows, empty=empty)


@command(app, "show")
def show_tenant(client: "Client", tenant: TenantId) -> None:
    """Show a tenant and its limits."""
    _show(client.tenant(tenant))


@command(app, "update")
def update(
    client: "Client",
    tenant: TenantId,
    name: Name = None,
    description: Name = None,
    quota: Quotas = None,
) -> None:
    """Change what is given; all else stays as it is."""
    _show(client.change_tenant(tenant, name=name, description=description, quotas=_limits(quota)))


@command(app, "suspend")
def suspend(
    client: "Client",
    tenant: TenantId,
    reason: Annotated[str, option("What its users are told.", metavar="TEXT")],
) -> None:
    """Log its users out, and keep them out."""
    _show(client.suspend_tenant(tenant, reason))


@command(app, "activate")
def activate(client: "Client", tenant: TenantId) -> None:
    """Let its users in again."""
    _show(client.activate_tenant(tenant))


@command(app, "disable")
def disable(client: "Client", tenant: TenantId) -> None:
    """Log its users out for good; its data stays."""
    _show(client.disable_tenant(tenant))


@command(app, "delete")
def delete(client: "Client", tenant: TenantId, force: Force = False) -> None:
    """Delete a tenant; with --force also its topics and all that is in them."""
    confirm(f"Delete the tenant {tenant}?", "delete", force=force)
    found = client.delete_tenant(tenant, force=force)
    show_text(found, f"deleted {tenant} and {found.topics_deleted} topics")


@command(app, "usage")
def usage(client: "Client", tenant: TenantId) -> None:
    """Show what a tenant uses."""
    _show_struct(client.tenant_usage(tenant))


@command(app, "stats")
def stats(client: "Client", tenant: TenantId) -> None:
    """Show how much of its limits a tenant uses, in percent."""
    _show_struct(client.tenant_stats(tenant))


@command(app, "topics")
def topics(client: "Client", tenant: TenantId) -> None:
    """List a tenant's topics, by the names that its users know."""
    found = client.tenant_topics(tenant)
    show(found, ("NAME",), [(each,) for each in found], empty="no topics")


@command(app, "add-user")
def add_user(
    client: "Client",
    tenant: TenantId,
    user: Annotated[str, argument("Its name.", metavar="USER")],
) -> None:
    """Put a user into a tenant, before the user is made."""
    show_text(client.add_tenant_user(tenant, user), f"{user} belongs to {tenant}")


@command(app, "remove-user")
def remove_user(
    client: "Client",
    tenant: TenantId,
    user: Annotated[str, argument("Its name.", metavar="USER")],
) -> None:
    """Take a user out that has no password, roles or keys any more."""
    show_text(client.remove_tenant_user(tenant, user), f"{user} belongs to no tenant")


def _limits(given: list[str] | None) -> dict[str, int] | None:
    if not given:
        return None
    return {name: _limit(name, text) for name, text in pairs(given, "--quota").items()}


def _limit(name: str, text: str) -> int:
    try:
        if name.endswith("_ms"):
            return parse_duration_ms(text, plain="ms")
        return parse_size(text) if "bytes" in name else int(text)
    except ValueError as error:
        raise UsageFailure(f"--quota {name}={text}: {error}") from error


def _show(tenant: TenantBody) -> None:
    fields: dict[str, Any] = msgspec.to_builtins(tenant)
    quotas = fields.pop("quotas")
    fields["users"] = ", ".join(fields["users"]) or "-"
    facts = [(name, each) for name, each in fields.items() if each not in (None, "", {})]
    show_facts(tenant, [*facts, *((name, each or "no limit") for name, each in quotas.items())])


def _show_struct(found: msgspec.Struct) -> None:
    show_facts(found, list(msgspec.to_builtins(found).items()))
