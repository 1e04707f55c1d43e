"""`goqueue restore`: make a data directory of a backup."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.session import Session

app = typer.Typer(add_completion=False)


@app.command()
def restore(
    context: typer.Context,
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="Directory that `backup` wrote.")
    ],
    data_dir: Annotated[
        Path,
        typer.Argument(metavar="DATA_DIR", help="Data directory to create; must be new or empty."),
    ],
) -> None:
    """Create a data directory from a backup. Every file and batch is verified.

    Start a server on it with `goqueue server --data-dir DATA_DIR`.
    """
    from goqueue.cli.backup_files import log_bytes
    from goqueue.cli.backup_files import restore as restore_files
    from goqueue.cli.commands.backup import facts, summary
    from goqueue.cli.output import show_facts
    from goqueue.cli.progress import reading

    session = context.ensure_object(Session)
    target = data_dir.absolute()
    with reading(2 * log_bytes(backup / "data")) as on_bytes:
        manifest = restore_files(backup, target, on_bytes=on_bytes)
    show_facts(session.output_format(), summary(target, manifest), facts(target, manifest))
