"""Whose data directory this is: `node.meta`, framed, checksummed and synced.

cluster id      of the cluster that it belongs to; empty until it has joined one
node id         of the node that it belongs to
directory id    made with the file: another disk has another one
incarnation     how often the directory was started: an old copy of it has a lower number
quorum          `local`, `etcd` or `remote` (at another node): where the cluster's metadata is
"""

import contextlib
from typing import Final

import msgspec

from goqueue.log import framed
from goqueue.model.config import Config
from goqueue.model.errors import CorruptData, DiskFull, WrongDataDirectory
from goqueue.model.ids import NodeId
from goqueue.model.quorum import LOCAL, parse_quorum
from goqueue.runtime import Disk, Random

FILE: Final = "node.meta"
KIND: Final = b"N"
VERSION: Final = 1
ETCD: Final = "etcd"
REMOTE: Final = "remote"


class NodeFile(msgspec.Struct, frozen=True):
    cluster_id: str
    node_id: NodeId
    directory_id: str
    incarnation: int
    quorum: str


def load(disk: Disk, data_dir: str) -> NodeFile | None:
    """Blocking.  None in a directory of an earlier version, or in a new one."""
    return framed.load(disk, f"{data_dir}/{FILE}", KIND, VERSION, NodeFile)


def store(disk: Disk, data_dir: str, node: NodeFile) -> None:
    """Blocking.  A start does not fail over a full disk: the next one counts again."""
    with contextlib.suppress(DiskFull):
        framed.store(disk, f"{data_dir}/{FILE}", KIND, VERSION, node)


def claim(disk: Disk, random: Random, config: Config, *, follows: bool = False) -> NodeFile:
    """Note that this node starts with the directory; refuse one that is not its own.  Blocking.

    A node that `follows` has no metadata of its own.
    """
    quorum = REMOTE if follows else _quorum_of(config)
    try:
        found = load(disk, config.data_dir)
    except CorruptData as error:
        command = f"goqueue doctor --data-dir {config.data_dir} --repair"
        raise CorruptData(f"{error}: `{command}` puts the file aside") from error
    if found is None:
        is_old = disk.exists(f"{config.data_dir}/logs/__metadata")
        directory_id = random.bytes(16).hex()
        found = NodeFile("", NodeId(config.node_id), directory_id, 0, LOCAL if is_old else quorum)
    _check(found, quorum, config)
    node = msgspec.structs.replace(found, incarnation=found.incarnation + 1)
    store(disk, config.data_dir, node)
    return node


def _quorum_of(config: Config) -> str:
    return LOCAL if parse_quorum(config.cluster.quorum) is None else ETCD


def _check(found: NodeFile, quorum: str, config: Config) -> None:
    if found.node_id != config.node_id:
        raise WrongDataDirectory(
            f"{config.data_dir} belongs to node {found.node_id}, and this is node {config.node_id}"
            " (setting node_id)"
        )
    if found.quorum != quorum:
        raise WrongDataDirectory(
            f"{config.data_dir}: the metadata of this directory is in its {found.quorum} quorum,"
            f" and this node looks for it in a {quorum} one (cluster.quorum is"
            f" {config.cluster.quorum!r}); it cannot be moved yet"
        )
