"""`goqueue pipeline`: jobs on Spark.  A file a job; what they share is in `goqueue.cli.jobs`."""

import typer

from goqueue.cli.commands.pipeline import (
    archive,
    check,
    compact,
    dlq,
    export,
    replay,
    report,
    run,
    sql,
    upkeep,
)

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def pipeline() -> None:
    """Run jobs on Spark: queries, declared pipelines, archives and replays."""


app.command("sql")(sql.sql)
app.command("run")(run.run)
app.command("check")(check.check)
app.command("export")(export.export)
app.command("archive")(archive.archive)
app.command("replay")(replay.replay)
app.command("vacuum")(upkeep.vacuum)
app.command("compact-files")(upkeep.compact_files)
app.command("compact")(compact.compact)
app.command("report")(report.report)
app.add_typer(dlq.app, name="dlq")
