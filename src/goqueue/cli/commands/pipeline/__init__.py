"""`goqueue pipeline`: jobs on Spark.  A file a job; what they share is in `goqueue.cli.jobs`."""

import typer

from goqueue.cli.command import command
from goqueue.cli.commands.pipeline import (
    archive,
    check,
    compact,
    dlq,
    export,
    journeys,
    replay,
    report,
    run,
    serve,
    served,
    sql,
    state,
    upkeep,
)

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def pipeline() -> None:
    """Run jobs on Spark: queries, declared pipelines, archives and replays."""


command(app, "sql")(sql.sql)
command(app, "run")(run.run)
command(app, "check")(check.check)
command(app, "compare")(state.compare)
command(app, "state")(state.state)
command(app, "export")(export.export)
command(app, "archive")(archive.archive)
command(app, "replay")(replay.replay)
command(app, "vacuum")(upkeep.vacuum)
command(app, "compact-files")(upkeep.compact_files)
command(app, "compact")(compact.compact)
command(app, "report")(report.report)
command(app, "journeys")(journeys.journeys)
command(app, "serve")(serve.serve)
command(app, "list")(served.list_pipelines)
command(app, "status")(served.status)
command(app, "logs")(served.logs)
command(app, "stop")(served.stop)
command(app, "restart")(served.restart)
command(app, "reset")(served.reset)
app.add_typer(dlq.app, name="dlq")
