"""`goqueue pipeline vacuum` and `compact-files`: the upkeep of archives."""

from typing import Annotated

import typer

from goqueue.cli.jobs import LOCAL, Master, Settings, spark_job
from goqueue.cli.output import show
from goqueue.cli.session import Session

Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="Directory of an archive, or of one of its tables.")
]


def vacuum(
    context: typer.Context,
    folder: Folder,
    hours: Annotated[
        float,
        typer.Option(min=1, metavar="N", help="Keep newer files; jobs and readers may use them."),
    ] = 168,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")
    ] = False,
) -> None:
    """Delete files that no table uses: from crashes, compaction and old snapshots."""
    from goqueue.spark.lake.upkeep import vacuum as vacuum_tables

    chosen = context.ensure_object(Session).output_format()
    done = vacuum_tables(folder, hours=hours, dry_run=dry_run)
    rows = [(each.table, len(each.removed)) for each in done]
    show(chosen, done, ("TABLE", "TO REMOVE" if dry_run else "REMOVED"), rows)


def compact_files(
    context: typer.Context,
    folder: Folder,
    target_mib: Annotated[
        int, typer.Option(min=1, max=10_240, metavar="N", help="Target size of files.")
    ] = 128,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Merge small files of an archive into large ones; archiving may continue."""
    from goqueue.spark.lake.upkeep import compact_files as compact_tables

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with spark_job(
        session, "compact-files", master=master, settings=settings, has_results=True
    ) as running:
        done = running.job(
            "compact-files",
            lambda: compact_tables(running.spark, folder, target_bytes=target_mib << 20),
        )
    rows = [(each.table, each.files_before, each.files_after) for each in done]
    show(chosen, done, ("TABLE", "FILES BEFORE", "AFTER"), rows)
