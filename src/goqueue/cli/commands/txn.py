"""`goqueue txn`: look at transactions, and abort one that hangs."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.api.transactions import TransactionBody
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show transactions, and abort one that hangs."
)


def _ids(client: "Client") -> list[str]:
    from goqueue.client.http.calls import transactions

    found = client.send(transactions.transactions(also_idle=True))
    return [each.transactional_id for each in found.transactions]


TransactionalId = Annotated[
    str, argument("The transactional id.", metavar="ID", complete=completion(_ids))
]


@command(app, "list")
def list_transactions(
    client: "Client",
    state: Annotated[str | None, option("Only in this state: ongoing, prepare_commit, …")] = None,
    also_idle: Annotated[
        bool, option("Also transactional ids without an open transaction.", "--all", "-a")
    ] = False,
) -> None:
    """List the open transactions."""
    from goqueue.cli.cells import Moment, State
    from goqueue.client.http.calls import transactions

    call = transactions.transactions(state=state, also_idle=also_idle)
    found = client.send(call).transactions
    show(
        found,
        ("ID", "STATE", "PRODUCER", "EPOCH", "SINCE", "PARTITIONS"),
        rows_of(
            found,
            *("transactional_id", (State, "state"), "producer_id", "epoch"),
            *((Moment, "start_time"), (len, "partitions")),
        ),
        drop=("EPOCH", "PRODUCER", "PARTITIONS"),
        empty="no open transactions",
    )


@command(app, "describe")
def describe(client: "Client", transactional_id: TransactionalId) -> None:
    """Show a transactional id: its producer and the partitions of its transaction."""
    from goqueue.client.http.calls import transactions

    found = client.send(transactions.transaction(transactional_id))
    show_facts(found, _facts(found))


def _facts(found: "TransactionBody") -> list[tuple[str, object]]:
    from goqueue.cli.cells import Moment, Span

    places = " ".join(f"{each.topic}-{each.partition}" for each in found.partitions)
    return [
        ("id", found.transactional_id),
        ("state", found.state),
        ("transaction", found.transaction_id),
        ("producer", found.producer_id),
        ("epoch", found.epoch),
        ("since", Moment(found.start_time)),
        ("time-out", Span(found.timeout_ms)),
        ("partitions", places or None),
        ("groups", " ".join(found.groups) or None),
        ("acks", found.acks or None),
    ]


@command(app, "abort")
def abort(client: "Client", transactional_id: TransactionalId, force: Force = False) -> None:
    """Abort the open transaction of an id and fence its producer."""
    from goqueue.client.http.calls import transactions

    confirm(f"Abort the transaction of {transactional_id}?", "abort", force=force)
    answer = client.send(transactions.abort_transaction(transactional_id))
    show_text(
        {"transactional_id": transactional_id, "status": answer.status},
        f"{transactional_id!r}: {answer.status}",
    )
