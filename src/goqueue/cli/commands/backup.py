"""`goqueue backup`: a verified copy of a running or stopped server's data."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.command import command
from goqueue.cli.failures import Failure
from goqueue.cli.session import Session
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.cli.backup_files import Manifest

app = typer.Typer(add_completion=False)

MayLink = Callable[[Path], bool]


@command(app)
def backup(
    session: Session,
    directory: Annotated[
        Path, argument("Directory for the backup; must be new or empty.", metavar="DIR")
    ],
    data_dir: Annotated[
        Path | None, option("Data directory of a stopped server.", metavar="DIR")
    ] = None,
    copy: Annotated[
        bool, option("Copy every file instead of linking on the same file system.")
    ] = False,
    allow_damage: Annotated[bool, option("Include damaged data; the backup lists it.")] = False,
) -> None:
    """Back up the running server, or the data directory of a stopped one.

    Run it on the server's machine. The backup has everything that was acknowledged before it
    started, and every batch is verified. On the same file system, immutable files are linked and
    take no space. To survive a broken disk, put the backup on another disk.
    """
    from goqueue.cli.backup_files import back_up, log_bytes, refuse_if_used
    from goqueue.cli.progress import reading

    target = directory.absolute()
    refuse_if_used(target)
    source_of = _hold_stopped(data_dir) if data_dir is not None else _hold_running(session)
    with source_of as (source, may_link):
        _refuse_inside(target, source)
        with reading(2 * log_bytes(source)) as on_bytes:
            manifest = back_up(
                source,
                target,
                may_link=(lambda _: False) if copy else may_link,
                allow_damage=allow_damage,
                on_bytes=on_bytes,
            )
    show_manifest(target, manifest)


@contextlib.contextmanager
def _hold_stopped(data_dir: Path) -> Iterator[tuple[Path, MayLink]]:
    from goqueue.cli.backup_files import may_link_stopped
    from goqueue.runtime.lock import DirectoryLock

    if not (data_dir / "logs").is_dir():
        raise Failure(f"{data_dir} is no data directory: there is no {data_dir / 'logs'}")
    lock = DirectoryLock(str(data_dir))
    try:
        yield data_dir.absolute(), may_link_stopped(data_dir)
    finally:
        lock.release()


@contextlib.contextmanager
def _hold_running(session: Session) -> Iterator[tuple[Path, MayLink]]:
    """The server's own copy; it is ours alone, so every file of it may be linked."""
    from goqueue.client.http.calls import topics

    with session.client() as client:
        copied = client.send(topics.take_backup())
        try:
            if not Path(copied.path, "logs").is_dir():
                raise Failure(
                    f"{copied.path} cannot be read here: run this on the server's machine, as a"
                    " user that may read its data directory"
                )
            yield Path(copied.path), lambda _: True
        finally:
            client.send(topics.remove_backup(copied.backup_id))


def _refuse_inside(target: Path, source: Path) -> None:
    """The copy of a running server lies in `backups/{id}` of its data directory."""
    data_dir = source.parent.parent if source.parent.name == "backups" else source
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise Failure(f"{target} lies in the data directory: choose a place outside {data_dir}")


def show_manifest(place: Path, manifest: "Manifest") -> None:
    from goqueue.cli.output import show_facts

    summary = _summary(place, manifest)
    facts = [(name.replace("_", " "), fact or "none") for name, fact in summary.items()]
    show_facts(summary, facts)


def _summary(place: Path, manifest: "Manifest") -> dict[str, object]:
    return {
        "directory": str(place),
        "created_at": manifest.created_at,
        "cluster_id": manifest.cluster_id,
        "topics": manifest.topics,
        "partitions": manifest.partitions,
        "records": manifest.records,
        "bytes": manifest.bytes,
        "files": len(manifest.files),
        "damage": manifest.damage,
    }
