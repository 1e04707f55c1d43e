"""`goqueue key`: API keys, with which programs log in over HTTP."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.command import command, completion
from goqueue.cli.commands.user import RoleOption
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.model.options import DurationMs, argument, option

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage API keys.")


def _ids(client: "Client") -> list[str]:
    return [each.id for each in client.api_keys()]


@command(app, "list")
def list_keys(client: "Client") -> None:
    """List the API keys; the keys themselves are not kept."""
    found = client.api_keys()
    show(
        found,
        ("ID", "NAME", "USER", "ROLES", "CREATED", "EXPIRES", "LAST USED"),
        rows_of(
            found,
            *("id", "name", "user"),
            lambda each: ", ".join(each.roles),
            *("created_at", "expires_at", "last_used_at"),
        ),
        whole=("ID",),
        empty="no API keys",
    )


@command(app, "create")
def create(
    client: "Client",
    name: Annotated[str, argument("What the key is for.", metavar="NAME")],
    user: Annotated[
        str | None,
        option("User that the key stands for. \\[one of the key's name]", metavar="NAME"),
    ] = None,
    role: RoleOption = (),
    expires_in: Annotated[
        DurationMs | None, option("How long it is valid: 90d, 12h. \\[for ever]")
    ] = None,
) -> None:
    """Create an API key and show it, this once: only a hash of it is kept.

    Its roles come on top of those of its user.
    """
    roles: Any = role
    made = client.create_api_key(name, user=user, roles=roles, expires_in_ms=expires_in)
    facts: list[tuple[str, object]] = [
        ("key", made.key),
        ("id", made.id),
        ("name", made.name),
        ("user", made.user),
        ("roles", ", ".join(made.roles)),
        ("expires", made.expires_at or "never"),
    ]
    show_facts(made, facts)
    typer.secho("The key is not shown again.", err=True, dim=True)


@command(app, "delete")
def delete(
    client: "Client",
    key_id: Annotated[
        str,
        argument(
            "Id of the key, as `goqueue key list` shows it.",
            metavar="ID",
            complete=completion(_ids),
        ),
    ],
    force: Force = False,
) -> None:
    """Delete an API key: it is refused from now on."""
    confirm(f"Delete API key {key_id}?", "delete", force=force)
    show_text(client.delete_api_key(key_id), f"API key {key_id!r} deleted")
