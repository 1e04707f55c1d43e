"""`goqueue quota`: how much users, client ids and IP addresses may use."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from goqueue.api.quotas import QuotaBody
from goqueue.cli.command import command
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.output import show
from goqueue.cli.pairs import pairs
from goqueue.model.options import argument, option
from goqueue.model.sizes import parse_size

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Limit what clients may use in a second."
)


class Whose(msgspec.Struct, frozen=True):
    """Whose quotas: a user's, a client id's, those of both together, or an address's."""

    user: Annotated[
        str | None, option("A user; <default> is each without its own.", metavar="NAME")
    ] = None
    client_id: Annotated[
        str | None, option("A client id; <default> is each without its own.", metavar="ID")
    ] = None
    ip: Annotated[str | None, option("An IP address of clients.", metavar="ADDRESS")] = None

    def names(self) -> dict[str, Any]:
        return {"user": self.user, "client_id": self.client_id, "ip": self.ip}

    def demand(self) -> dict[str, Any]:
        if not any(self.names().values()):
            raise UsageFailure("whose quota? pass --user, --client-id, both, or --ip")
        return self.names()


@command(app, "list")
def list_quotas(client: "Client", whose: Whose) -> None:
    """List the quotas, or those of one user, client id or address."""
    _show(client.quotas(**whose.names()))


@command(app, "set")
def set_quotas(
    client: "Client",
    rates: Annotated[
        list[str],
        argument(
            "A rate a second: producer_byte_rate=10MiB, consumer_byte_rate, producer_message_rate,"
            " consumer_message_rate, request_rate; connection_creation_rate with --ip.",
            metavar="QUOTA=RATE...",
        ),
    ],
    whose: Whose,
) -> None:
    """Set quotas, which count from the next request on; others of the same stay as they are."""
    given = {name: _rate(name, text) for name, text in pairs(rates, "QUOTA").items()}
    _show([client.set_quotas(given, **whose.demand())])


@command(app, "delete")
def delete(
    client: "Client",
    whose: Whose,
    quotas: Annotated[
        list[str] | None, argument("Which; without one, all.", metavar="[QUOTA...]")
    ] = None,
    force: Force = False,
) -> None:
    """Remove quotas."""
    names = whose.demand()
    confirm(f"Remove {'these' if quotas else 'all'} quotas?", "remove", force=force)
    if quotas:
        _show([client.set_quotas(dict.fromkeys(quotas), **names)])
        return
    removed = client.delete_quotas(**names)
    if not removed.quotas:
        raise Failure("there are no such quotas: see `goqueue quota list`", ExitCode.NOT_FOUND)
    _show([removed])


def _rate(name: str, text: str) -> float:
    try:
        return float(parse_size(text)) if name.endswith("byte_rate") else float(text)
    except ValueError as error:
        raise UsageFailure(f"{name}={text}: {error}") from error


def _show(found: Iterable[QuotaBody]) -> None:
    listed = list(found)
    rows = [
        (each.user or "-", each.client_id or "-", each.ip or "-", name, f"{rate:g}")
        for each in listed
        for name, rate in sorted(each.quotas.items())
    ]
    headings = ("USER", "CLIENT ID", "IP", "QUOTA", "RATE")
    show(listed, headings, rows, empty="no quotas: goqueue quota set --user NAME QUOTA=RATE")
