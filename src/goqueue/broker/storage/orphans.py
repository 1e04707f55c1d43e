"""Directories below `logs` that the metadata does not account for.

Only a record of a topic's deletion allows its data to be removed.  A directory whose topic is
neither known nor deleted is an orphan: the metadata lost its end, or somebody copied it there.  An
orphan stays where it is, and is reported.  When its name is given to a new topic, the orphan is
moved to `orphaned/`, whole.

    logs/{topic}/topic                       which topic the directory belongs to, by its id
    orphaned/{topic}.{topic id}/             set aside: another topic has the name
"""

from collections.abc import Callable
from typing import Final

import msgspec

from goqueue.log import framed
from goqueue.model.errors import CorruptData
from goqueue.model.ids import TopicId
from goqueue.model.names import is_internal
from goqueue.runtime import Disk

TOPIC_KIND: Final = b"I"
TOPIC_VERSION: Final = 1
TOPIC_FILE: Final = "topic"


class Orphan(msgspec.Struct, frozen=True):
    path: str
    topic: str
    topic_id: TopicId | None  # None when no file says so
    partitions: int
    log_bytes: int  # of all its records


def read_owner(disk: Disk, directory: str) -> TopicId | None:
    """Which topic the directory belongs to; None when no file says.  Raises `CorruptData`."""
    return framed.load(disk, f"{directory}/{TOPIC_FILE}", TOPIC_KIND, TOPIC_VERSION, TopicId)


def find_orphans(
    disk: Disk, data_dir: str, is_accounted_for: Callable[[TopicId], bool]
) -> list[Orphan]:
    """Directories with data of topics that are neither known nor deleted.  Blocking."""
    found = []
    for name in disk.list_directory(f"{data_dir}/logs"):
        path = f"{data_dir}/logs/{name}"
        if is_internal(name) or not _partitions(disk, path):
            continue
        owner = _owner(disk, path)
        if owner is None or not is_accounted_for(owner):
            found.append(_orphan(disk, path, name, owner))
    for name in disk.list_directory(f"{data_dir}/orphaned"):
        path = f"{data_dir}/orphaned/{name}"
        found.append(_orphan(disk, path, name.rpartition(".")[0], _owner(disk, path)))
    return found


def _owner(disk: Disk, path: str) -> TopicId | None:
    try:
        return read_owner(disk, path)
    except CorruptData:
        return None


def _partitions(disk: Disk, path: str) -> list[str]:
    return [name for name in disk.list_directory(path) if name.isdigit()]


def _orphan(disk: Disk, path: str, topic: str, owner: TopicId | None) -> Orphan:
    partitions = _partitions(disk, path)
    logs = [
        f"{path}/{partition}/{name}"
        for partition in partitions
        for name in disk.list_directory(f"{path}/{partition}")
        if name.endswith(".log")
    ]
    return Orphan(path, topic, owner, len(partitions), sum(disk.size(each) for each in logs))
