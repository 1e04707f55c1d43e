"""`goqueue pipeline vacuum` and `compact-files`: the upkeep of archives."""

from typing import Annotated

from goqueue.cli.jobs import SparkOptions
from goqueue.cli.output import show
from goqueue.cli.session import Session
from goqueue.model.options import argument, option

Folder = Annotated[
    str, argument("Directory or URL of an archive, or of one of its tables.", metavar="DIR")
]
CatalogName = Annotated[
    str | None,
    option("Iceberg catalog by its name in PyIceberg's configuration.", metavar="NAME"),
]


def vacuum(
    folder: Folder,
    hours: Annotated[
        float, option("Keep files that are newer; jobs and readers may use them.", min=1)
    ] = 168,
    dry_run: Annotated[bool, option("Show what would be deleted; delete nothing.")] = False,
    catalog: CatalogName = None,
) -> None:
    """Delete files that no table uses: leftovers of crashes, compaction and old snapshots."""
    from goqueue.spark.lake.upkeep import vacuum as vacuum_tables

    done = vacuum_tables(folder, hours=hours, dry_run=dry_run, catalog=catalog)
    rows = [(each.table, len(each.removed)) for each in done]
    show(done, ("TABLE", "TO REMOVE" if dry_run else "REMOVED"), rows)


def compact_files(
    session: Session,
    folder: Folder,
    target_mib: Annotated[int, option("Target size of files.", min=1, max=10_240)] = 128,
    catalog: CatalogName = None,
    *,
    job: SparkOptions,
) -> None:
    """Merge small files of an archive into large ones; archiving may continue."""
    from goqueue.spark.lake.upkeep import compact_files as compact_tables

    with job.run(session, "compact-files", has_results=True) as running:
        done = running.job(
            "compact-files",
            lambda: compact_tables(
                running.spark, folder, target_bytes=target_mib << 20, catalog=catalog
            ),
        )
    rows = [(each.table, each.files_before, each.files_after) for each in done]
    show(done, ("TABLE", "FILES BEFORE", "AFTER"), rows)
