"""`goqueue restore`: make a data directory of a backup."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.command import command
from goqueue.model.options import argument

app = typer.Typer(add_completion=False)


@command(app)
def restore(
    backup: Annotated[Path, argument("Directory that `backup` wrote.", metavar="BACKUP")],
    data_dir: Annotated[
        Path, argument("Data directory to create; must be new or empty.", metavar="DATA_DIR")
    ],
) -> None:
    """Create a data directory from a backup. Every file and batch is verified.

    Start a server on it with `goqueue server --data-dir DATA_DIR`.
    """
    from goqueue.cli.backup_files import log_bytes
    from goqueue.cli.backup_files import restore as restore_files
    from goqueue.cli.commands.backup import show_manifest
    from goqueue.cli.progress import reading

    target = data_dir.absolute()
    with reading(2 * log_bytes(backup / "data")) as on_bytes:
        manifest = restore_files(backup, target, on_bytes=on_bytes)
    show_manifest(target, manifest)
