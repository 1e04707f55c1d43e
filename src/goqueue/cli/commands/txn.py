"""`goqueue txn`: look at transactions, and abort one that hangs."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import Failure
from goqueue.cli.output import show, show_facts, show_value
from goqueue.cli.session import Session

if TYPE_CHECKING:
    from goqueue.api.transactions import TransactionBody

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Show transactions, and abort one that hangs.",
)


def _names(context: typer.Context) -> list[str]:
    """For the shell's completion, which says nothing when it cannot ask."""
    from goqueue.client.errors import ClientError
    from goqueue.client.http.calls import transactions

    try:
        with context.ensure_object(Session).client() as client:
            found = client.send(transactions.transactions(also_idle=True))
            return [each.transactional_id for each in found.transactions]
    except (ClientError, Failure):
        return []


TransactionalId = Annotated[
    str, typer.Argument(metavar="ID", help="The transactional id.", autocompletion=_names)
]


@app.command("list")
def list_transactions(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option("--state", help="Only in this state: ongoing, prepare_commit, …")
    ] = None,
    also_idle: Annotated[
        bool,
        typer.Option("--all", "-a", help="Also transactional ids without an open transaction."),
    ] = False,
) -> None:
    """List the open transactions."""
    from goqueue.cli.cells import Moment, State
    from goqueue.client.http.calls import transactions

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        call = transactions.transactions(state=state, also_idle=also_idle)
        found = client.send(call).transactions
    show(
        chosen,
        found,
        ("ID", "STATE", "PRODUCER", "EPOCH", "SINCE", "PARTITIONS"),
        [
            (
                each.transactional_id,
                State(each.state),
                each.producer_id,
                each.epoch,
                Moment(each.start_time),
                len(each.partitions),
            )
            for each in found
        ],
        drop=("EPOCH", "PRODUCER", "PARTITIONS"),
        empty="no open transactions",
    )


@app.command("describe")
def describe(context: typer.Context, transactional_id: TransactionalId) -> None:
    """Show a transactional id: its producer and the partitions of its transaction."""
    from goqueue.client.http.calls import transactions

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.send(transactions.transaction(transactional_id))
    show_facts(chosen, found, _facts(found))


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


@app.command("abort")
def abort(
    context: typer.Context,
    transactional_id: TransactionalId,
    force: Force = False,
) -> None:
    """Abort the open transaction of an id and fence its producer."""
    from goqueue.client.http.calls import transactions

    session = context.ensure_object(Session)
    chosen = session.output_format()
    confirm(f"Abort the transaction of {transactional_id}?", "abort", force=force)
    with session.client() as client:
        answer = client.send(transactions.abort_transaction(transactional_id))
    if chosen == "table":
        typer.echo(f"{transactional_id!r}: {answer.status}")
    else:
        show_value(chosen, {"transactional_id": transactional_id, "status": answer.status})
