"""What must hold in a simulated cluster whenever a high watermark moves, or files do.

- one node commits in an epoch of a log, and every node shows below its high watermark what was
  committed there, byte for byte (not of logs that are not synced with each commit: `__traces`)
- no node's high watermark falls while its process lives
- whatever a leader counts as committed is synced on the disks of its ISR, as far as they live, and
  the ISR is not below min.insync.replicas
- no directory of a live topic is moved or removed where it has a replica
- the metadata is sound: who leads is in sync and lives, who is in sync has a replica

Watermarks and files are looked at whenever one moves, so that events in which none does cost
nothing; metadata every fifth of a second.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator

import pytest

from goqueue.broker import Partition
from goqueue.broker.storage.orphans import read_owner
from goqueue.cluster import Metadata
from goqueue.cluster.metadata import NO_LEADER
from goqueue.cluster.replication import Leader, effective_min_insync
from goqueue.log import Log
from goqueue.model import batch as batches
from goqueue.model.ids import NodeId, Offset, TopicId
from goqueue.testing.sim import SimDisk
from tests.unit.broker.cluster.cluster_world import HOSTS, NUMBERS, ClusterWorld

LOGS = "/data/logs/"
READ_BYTES = 1 << 20

LogKey = tuple[TopicId | None, str]  # a topic, and the directory of one of its logs


class Invariants:
    def __init__(self, nodes: ClusterWorld) -> None:
        self._nodes = nodes
        self.committed: defaultdict[LogKey, dict[int, tuple[int, int]]] = defaultdict(dict)
        self._committers: dict[tuple[LogKey, int], str] = {}
        self._shown: dict[Partition, Offset] = {}  # one object is one life of a log
        self._opened: dict[Partition, Offset] = {}  # what each showed when it was opened
        self._newest: tuple[int, Metadata] | None = None

    # --- high watermarks --------------------------------------------------------------------------

    def note_watermark(self, partition: Partition, before: Offset) -> None:
        """It was raised."""
        host, log = self._host_of(partition._disk), partition.log
        if host is None or partition.topic_id is None:
            return  # a process that has died, or a log of one node alone
        if log.settings.flush != "commit":
            return  # a power cut may take what was committed
        shown = self._shown.get(partition, before)
        self._opened.setdefault(partition, before)
        assert before >= shown, f"{host}: {partition} shows {before}, it showed {shown}"
        self._shown[partition] = log.high_watermark
        key = (partition.topic_id, log.directory)
        if isinstance(partition.role, Leader):
            self._check_leader(partition, partition.role, host, key)
        self._check_records(partition, host, key, before)

    def _host_of(self, disk: object) -> str | None:
        world = self._nodes.world
        return next((host for host in self._nodes.hosts if world.disk(host) is disk), None)

    def _check_leader(self, partition: Partition, role: Leader, host: str, key: LogKey) -> None:
        committer = self._committers.setdefault((key, role.epoch), host)
        assert committer == host, f"{committer} and {host} commit in epoch {role.epoch} of {key}"
        log = partition.log
        needed = effective_min_insync(log.settings.min_insync_replicas, len(role.replicas))
        assert len(role.isr) >= needed, f"{host} commits {partition} with the ISR {role.isr}"
        for node in role.isr:
            synced = self._synced(node, log)
            assert synced is None or synced >= log.high_watermark, (
                f"{host} commits {partition} up to {log.high_watermark}, node {node} has synced"
                f" {synced}"
            )

    def _synced(self, node: NodeId, log: Log) -> Offset | None:
        """None: it is not known, for that node is down, or opens its log."""
        broker = self._nodes.brokers.get(HOSTS[node])
        for each in () if broker is None else broker.partitions.logs():
            if each.log.directory == log.directory and not each.log.rewriting:
                return each.log.synced_offset
        return None

    def _check_records(self, partition: Partition, host: str, key: LogKey, before: Offset) -> None:
        log, known = partition.log, self.committed[key]
        is_leader, start = isinstance(partition.role, Leader), max(before, log.start_offset)
        while start < log.high_watermark:
            chunk = log.read(start, READ_BYTES, log.high_watermark)
            for header in batches.verified_headers(chunk.data):
                found = (header.crc, header.leader_epoch)
                if is_leader:
                    known.setdefault(header.base_offset, found)
                elif header.base_offset not in known:
                    self._learn_opened(key)
                expected = known.get(header.base_offset)
                assert expected == found, (
                    f"{host} shows {found} at offset {header.base_offset} of {partition},"
                    f" it is {expected}"
                )
            start = chunk.next_offset

    def _learn_opened(self, key: LogKey) -> None:
        """What its leader showed from the beginning: a log without other replicas shows its end."""
        known = self.committed[key]
        for broker in self._nodes.brokers.values():
            for each in broker.partitions.logs():
                if (each.topic_id, each.log.directory) != key or not each.leads:
                    continue
                start, end = each.log.start_offset, self._opened.get(each, each.log.high_watermark)
                while start < end:
                    chunk = each.log.read(start, READ_BYTES, end)
                    for header in batches.verified_headers(chunk.data):
                        known.setdefault(header.base_offset, (header.crc, header.leader_epoch))
                    start = chunk.next_offset

    # --- files ------------------------------------------------------------------------------------

    def note_gone(self, disk: SimDisk, path: str) -> None:
        """A directory is about to be moved or removed."""
        if not path.startswith(LOGS) or path.count("/") != LOGS.count("/"):
            return
        host, owner, metadata = self._host_of(disk), read_owner(disk, path), self.newest_metadata()
        if host is None or owner is None or metadata is None or not metadata.has_id(owner):
            return
        states = metadata.partitions.of(owner)
        has_replica = any(NUMBERS[host] in state.replicas for state in states)
        assert not has_replica, f"{host} gives up {path}, and topic {owner} is alive"

    def newest_metadata(self) -> Metadata | None:
        """The newest committed one that any node ever had."""
        for broker in self._nodes.started.values():
            with contextlib.suppress(AssertionError):  # it has no metadata yet
                position, metadata = broker.controller.position, broker.metadata
                if self._newest is None or position >= self._newest[0]:
                    self._newest = position, metadata
        return None if self._newest is None else self._newest[1]

    # --- metadata ---------------------------------------------------------------------------------

    def check_metadata(self, metadata: Metadata) -> None:
        for topic_id, index, state in metadata.partitions:
            what = f"{topic_id}-{index}: {state}"
            assert state.leader == NO_LEADER or state.leader in state.isr, what
            assert set(state.isr) <= set(state.replicas), what
            assert not set(state.elr) & set(state.isr), what
            assert state.isr or state.elr, what
            if state.leader != NO_LEADER:
                assert metadata.nodes.live(state.leader), f"{what} is led by a fenced node"
            for node in state.replicas:
                assert metadata.nodes.at(node).state != "removed", what


@contextlib.contextmanager
def watching(nodes: ClusterWorld) -> Iterator[Invariants]:
    """Brokers are watched until the block ends."""
    found = Invariants(nodes)
    with pytest.MonkeyPatch.context() as patch:
        _watch_watermarks(patch, found)
        _watch_files(patch, found)
        yield found


def _watch_watermarks(patch: pytest.MonkeyPatch, invariants: Invariants) -> None:
    advance, follow = Partition._advance, Partition.follow_watermark

    def watch_advance(self: Partition) -> None:
        before = self.log.high_watermark
        advance(self)
        if self.log.high_watermark != before:
            invariants.note_watermark(self, before)

    def watch_follow(self: Partition, leader_watermark: Offset) -> None:
        before = self.log.high_watermark
        follow(self, leader_watermark)
        if self.log.high_watermark != before:
            invariants.note_watermark(self, before)

    patch.setattr(Partition, "_advance", watch_advance)
    patch.setattr(Partition, "follow_watermark", watch_follow)


def _watch_files(patch: pytest.MonkeyPatch, invariants: Invariants) -> None:
    rename, remove_tree = SimDisk.rename, SimDisk.remove_tree

    def watch_rename(self: SimDisk, source: str, target: str) -> None:
        invariants.note_gone(self, source)
        rename(self, source, target)

    def watch_remove(self: SimDisk, path: str) -> None:
        invariants.note_gone(self, path)
        remove_tree(self, path)

    patch.setattr(SimDisk, "rename", watch_rename)
    patch.setattr(SimDisk, "remove_tree", watch_remove)
