"""`goqueue user`: who may log in, and with which roles."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.api.security import UserBody
from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.output import show, show_facts, show_text
from goqueue.cli.secrets import PasswordFile, read_secret
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Manage users, their passwords and roles."
)


def _names(client: "Client") -> list[str]:
    return [each.name for each in client.users()]


NewName = Annotated[str, argument("Name of the user.", metavar="NAME")]
Name = Annotated[str, argument("Name of the user.", metavar="NAME", complete=completion(_names))]
RoleOption = Annotated[
    tuple[str, ...],
    option("admin, producer, consumer or readonly. May be repeated.", "--role", metavar="ROLE"),
]


@command(app, "list")
def list_users(client: "Client") -> None:
    """List the users."""
    found = client.users()
    rows = [(each.name, _roles(each), _mechanisms(each)) for each in found]
    show(found, ("NAME", "ROLES", "PASSWORD FOR"), rows, empty="no users")


@command(app, "show")
def show_user(client: "Client", name: Name) -> None:
    """Show a user, with its ACLs."""
    found, acls = client.user(name), client.acls(principal=f"User:{name}")
    from goqueue.cli.commands.acl import describe

    facts: list[tuple[str, object]] = [
        ("name", found.name),
        ("roles", _roles(found)),
        ("password for", _mechanisms(found)),
        *(("acl", describe(each)) for each in acls),
    ]
    show_facts({"user": found, "acls": acls}, facts)


@command(app, "create")
def create(
    client: "Client",
    name: NewName,
    role: RoleOption = (),
    password_file: PasswordFile = None,
    no_password: Annotated[
        bool, option("For one whom a certificate names, and who has no password.")
    ] = False,
) -> None:
    """Create a user; the password is asked for without showing it."""
    from goqueue.client.errors import NotFound

    if no_password and password_file is not None:
        raise UsageFailure("--no-password and --password-file: choose one of them")
    if no_password and not role:
        raise UsageFailure("without a password and without a role there is nothing to keep")
    try:
        client.user(name)
    except NotFound:
        pass
    else:
        raise Failure(
            f"there is a user {name!r}: change it with `goqueue user set-password`, or `set-roles`",
            ExitCode.CONFLICT,
        )
    password = None if no_password else read_secret("Password", password_file, is_new=True)
    roles: Any = role
    found = client.put_user(name, password=password, roles=roles)
    show_text(found, f"user {name!r} created, with roles {_roles(found)}")


@command(app, "set-password")
def set_password(client: "Client", name: Name, password_file: PasswordFile = None) -> None:
    """Set a user's password; connections that are open stay open."""
    client.user(name)
    found = client.put_user(name, password=read_secret("Password", password_file, is_new=True))
    show_text(found, f"user {name!r} has a new password")


@command(app, "set-roles")
def set_roles(
    client: "Client",
    name: Name,
    role: RoleOption = (),
    none: Annotated[bool, option("Take all roles from the user.", "--none")] = False,
) -> None:
    """Set which roles a user has, from the next request on."""
    if none == bool(role):
        raise UsageFailure("give --role once or more, or --none")
    client.user(name)
    roles: Any = role
    found = client.put_user(name, roles=roles)
    show_text(found, f"user {name!r} has the roles {_roles(found)}")


@command(app, "delete")
def delete(client: "Client", name: Name, force: Force = False) -> None:
    """Delete a user: its password and its roles.  Its API keys and ACLs stay."""
    confirm(f"Delete user {name}?", "delete", force=force)
    found = client.delete_user(name)
    show_text(found, f"user {name!r} deleted")


def _roles(user: UserBody) -> str:
    return ", ".join(user.roles) or "none"


def _mechanisms(user: UserBody) -> str:
    return ", ".join(user.mechanisms) or "none"
