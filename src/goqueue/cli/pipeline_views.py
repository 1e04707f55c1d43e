"""What `goqueue pipeline` shows of pipelines: their plans, their rows, their ends."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.cli.output import for_people, show_table, show_value

if TYPE_CHECKING:
    from goqueue.spark.pipelines.describing import Description, Target, View
    from goqueue.spark.runtime.progress import Progress


# --- rows -----------------------------------------------------------------------------------------


def show_rows(sink: str, batch: int, rows: list[dict[str, Any]]) -> None:
    """For a console sink: a table a micro-batch, or a line of JSON a row."""
    if for_people():
        sys.stdout.write(f"{sink}, batch {batch}\n")
        if rows:
            show_table(list(rows[0]), [list(each.values()) for each in rows])
    else:
        for row in rows:
            line = msgspec.json.encode({"sink": sink, "batch": batch, "row": row}, enc_hook=str)
            sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


# --- a plan ---------------------------------------------------------------------------------------


def show_description(found: "Description", *, explain: bool) -> None:
    if not for_people():
        show_value(found)
        return
    sys.stdout.write(f"pipeline {found.name}, broker {found.bootstrap}\n")
    for each in found.sources:
        sys.stdout.write(_view("source", each, each.what))
    for each in found.steps:
        sys.stdout.write(_view("step", each, f"from {', '.join(each.reads) or 'nothing'}"))
    for target in found.sinks:
        sys.stdout.write(_target(target, explain=explain))


def _view(kind: str, view: "View", note: str) -> str:
    return f"\n{kind} {view.name}: {note}\n{_columns(view.columns)}"


def _target(target: "Target", *, explain: bool) -> str:
    resumes = (
        "starts over"
        if target.batches_done is None
        else f"goes on after {target.batches_done} batches"
    )
    plan = f"\n{target.plan}\n" if explain else ""
    return (
        f"\nsink {target.name}: {target.what}, from {target.reads}, {target.mode}\n"
        f"{_columns(target.columns)}"
        f"    trigger: {target.trigger}\n"
        f"    checkpoint: {target.checkpoint} ({resumes})\n{plan}"
    )


def _columns(columns: dict[str, str]) -> str:
    width = max(map(len, columns), default=0)
    return "".join(f"    {name:<{width}}  {kind}\n" for name, kind in columns.items())


# --- an end ---------------------------------------------------------------------------------------


def show_end(ended: "Sequence[Progress]") -> None:
    """For people; programs have read it in the last lines of the progress."""
    if for_people() and not sys.stderr.isatty():
        show_table(
            ("JOB", "STATE", "ROWS", "LAG"),
            [(each.name, each.state, each.rows, each.lag) for each in ended],
        )
