"""`goqueue pipeline state` and `compare`: look into a pipeline, and at what a change would do."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.commands.pipeline.check import PipelineArgument
from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import JobOptions, SparkOptions, reached_broker
from goqueue.cli.output import for_people, show_table, show_value
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.cli.session import Session
from goqueue.model.options import TimeMs, argument, option

if TYPE_CHECKING:
    from goqueue.spark.pipelines.comparing import Comparison, Side
    from goqueue.spark.pipelines.state import OperatorState

ROWS_MAX: Final = 10_000

Limit = Annotated[int, option("Rows to show of each kind.", "-n", min=0, max=ROWS_MAX)]


def state(
    session: Session,
    file: PipelineArgument,
    sink: Annotated[str, argument("Name of the sink.", metavar="SINK")],
    limit: Limit = 10,
    *,
    options: SparkOptions,
) -> None:
    """Show what a sink keeps between micro-batches: windows, joins, keys that were seen."""
    from goqueue.spark.pipelines.state import read_state

    declared = PipelineFile(file)
    if sink not in declared.pipeline.sinks:
        known = ", ".join(declared.pipeline.sinks)
        raise UsageFailure(f"there is no sink {sink!r} in {file}: {known}")
    checkpoint = declared.places("").checkpoint(sink)
    with options.run(session, "state", has_results=True) as running:
        found = running.job("state", lambda: read_state(running.spark, checkpoint, limit))
    if not for_people():
        show_value(found)
        return
    if not found:
        typer.echo(f"{sink} keeps nothing: it has no window, join or de-duplication")
    for each in found:
        _show_operator(each)


def _show_operator(found: "OperatorState") -> None:
    side = f", {found.side} side" if found.side else ""
    typer.echo(f"{found.name}{side}: {found.rows:,} rows after batch {found.batch}")
    _show_rows([_flatten(each) for each in found.examples])


def compare(
    session: Session,
    old: Annotated[str, argument("The pipeline as it is, in YAML.", metavar="OLD")],
    new: Annotated[str, argument("The pipeline as it shall be.", metavar="NEW")],
    view: Annotated[str, argument("Source or step to compare.", metavar="STEP")],
    from_time: Annotated[
        TimeMs | None, option("Only messages since this time: RFC 3339, or -1h for an hour ago.")
    ] = None,
    limit: Limit = 5,
    *,
    options: JobOptions,
) -> None:
    """Compare a step of two pipeline files over the same messages. Nothing is written.

    Exit code 1: there are differences.
    """
    from goqueue.spark.pipelines import comparing

    before, after = PipelineFile(old), PipelineFile(new)
    told = before.pipeline.bootstrap
    address = reached_broker(session, options, told, before.login)
    with (
        before.problems_shown(),
        options.run(session, "compare", has_results=True) as running,
    ):
        found = running.job(
            "compare",
            lambda: comparing.compare(
                running.spark,
                (before.pipeline, before.places(address)),
                (after.pipeline, after.places(address)),
                view,
                since_ms=from_time,
                examples=limit,
            ),
        )
    _show_comparison(found)
    if not found.is_equal:
        raise typer.Exit(1)


def _show_comparison(found: "Comparison") -> None:
    if not for_people():
        show_value(found)
        return
    if found.is_equal:
        typer.echo(f"{found.view}: the same {found.old.rows:,} rows")
        return
    _show_side("old", found.view, found.old)
    _show_side("new", found.view, found.new)


def _show_side(name: str, view: str, side: "Side") -> None:
    columns = f"; columns {', '.join(side.columns)}" if side.columns else ""
    typer.echo(f"{name} {view}: {side.rows:,} rows, {side.alone:,} only here{columns}")
    _show_rows(side.examples)


def _show_rows(rows: list[dict[str, Any]]) -> None:
    if rows:
        show_table(list(rows[0]), [list(each.values()) for each in rows])


def _flatten(row: dict[str, Any]) -> dict[str, Any]:
    """Fields of the key and of the value beside each other."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        fields = value if isinstance(value, dict) else {name: value}
        for field, each in fields.items():
            flat[field if field not in flat else f"{name}.{field}"] = each
    return flat
