"""Examines the data directory of a stopped server and, if asked, repairs it.

Damage that the server repairs by itself is a warning.  A problem is what it cannot repair: a
damaged internal log (`repair` repairs it), a damaged file of a topic (`repair` rewrites it), data
of a topic that no record names (`repair` creates the topic again), and damaged messages, which only
a backup brings back.  Nothing is deleted.  Blocking.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from goqueue.broker.doctor.internal_logs import (
    Replayed,
    adopt,
    metadata_in,
    repair,
    replay_all,
    replay_ledger,
    skip_producer_ids,
)
from goqueue.broker.doctor.timers import replay_timers
from goqueue.broker.internal_topics import METADATA_TOPIC
from goqueue.broker.metadata import node_file
from goqueue.broker.storage.bundle import DELAYS
from goqueue.broker.storage.orphans import (
    TOPIC_FILE,
    TOPIC_KIND,
    TOPIC_VERSION,
    Orphan,
    find_orphans,
    read_owner,
)
from goqueue.cluster import Metadata, Topic, controller
from goqueue.log import DamagedRange, LogReport, framed, inspect_log
from goqueue.model.config import Config
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Timestamp, TopicName
from goqueue.model.names import is_internal
from goqueue.model.quorum import LOCAL
from goqueue.runtime import Disk

Status = Literal["ok", "warning", "problem", "repaired"]
TIME_MAX: Final = 4_102_444_800_000  # 2100: a producer may have written any number
SEVERITY: Final = {"ok": 0, "repaired": 1, "warning": 2, "problem": 3}


class Finding(msgspec.Struct, frozen=True):
    status: Status
    check: str
    subject: str
    text: str


class Examination(msgspec.Struct):
    findings: list[Finding]
    topics: int = 0
    partitions: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    cluster_id: str = ""
    logs: list[LogReport] = []

    @property
    def has_problems(self) -> bool:
        return any(each.status == "problem" for each in self.findings)


def examine(
    disk: Disk,
    config: Config,
    now: Timestamp,
    *,
    repairs: bool = False,
    aside: str = "",
    cluster_id: str = "",
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Examination:
    """With `repairs`, damaged files go below `aside`, and a lost cluster id becomes `cluster_id`.

    The caller holds the directory's lock.
    """
    work = _Examiner(disk, config, now, repairs, aside, cluster_id, on_bytes)
    work.look_at_node_file()
    work.look_at_internal_logs()
    work.look_at_topics()
    return work.result


class _Examiner:
    def __init__(
        self,
        disk: Disk,
        config: Config,
        now: Timestamp,
        repairs: bool,
        aside: str,
        cluster_id: str,
        on_bytes: Callable[[int], None],
    ) -> None:
        self.result = Examination([], logs=[])
        self._disk = disk
        self._config = config
        self._data_dir = config.data_dir
        self._now = now
        self._repairs = repairs
        self._aside = aside
        self._cluster_id = cluster_id
        self._on_bytes = on_bytes
        self._metadata = Metadata({}, config.topics.partitions_max)
        self._is_metadata_here = True

    def _tell(self, status: Status, check: str, subject: str, text: str) -> None:
        self.result.findings.append(Finding(status, check, subject, text))

    def _count(self, report: LogReport) -> None:
        self.result.logs.append(report)
        self.result.bytes += report.bytes
        self.result.batches += report.batches
        self.result.records += report.records
        self._on_bytes(report.bytes)

    # --- the directory itself ---------------------------------------------------------------------

    def look_at_node_file(self) -> None:
        """A lost one is written by the next start, as for a directory that was restored."""
        path = f"{self._data_dir}/{node_file.FILE}"
        try:
            node = node_file.load(self._disk, self._data_dir)
        except CorruptData as error:
            if self._repairs:
                self._disk.make_directory(self._aside)
                self._disk.rename(path, f"{self._aside}/{node_file.FILE}")
            status: Status = "repaired" if self._repairs else "problem"
            self._tell(status, "directory", node_file.FILE, str(error))
            return
        if node is not None:
            self._cluster_id = node.cluster_id or self._cluster_id
            self._is_metadata_here = node.quorum == LOCAL
        if not self._is_metadata_here:
            text = "the metadata is in etcd, which is not examined: topics are not compared with it"
            self._tell("ok", "directory", node_file.FILE, text)

    # --- the broker's own logs --------------------------------------------------------------------

    def look_at_internal_logs(self) -> None:
        found = replay_all(self._disk, self._config)
        self._metadata = metadata_in(found)
        orphans = find_orphans(
            self._disk,
            self._data_dir,
            lambda owner: self._metadata.has_id(owner) or owner in self._metadata.deleted,
        )
        for topic, replayed in found.items():
            if topic == METADATA_TOPIC and not self._is_metadata_here:
                continue
            self.result.partitions += 1
            self._count(replayed.report)
            self._tell_internal(replayed)
            if topic == METADATA_TOPIC:
                self._look_at_orphans(replayed, orphans)
            elif self._repairs and not replayed.is_sound:
                repair(self._disk, self._data_dir, replayed, self._aside)

    def _tell_internal(self, found: Replayed) -> None:
        self._tell_damage("internal log", found)
        if found.is_sound:
            count, end = found.report.records, found.report.end_offset
            text = f"{_format_count(count, 'record')}, end offset {end}"
            self._tell("ok", "internal log", found.place.name, text)

    def _tell_damage(self, check: str, found: Replayed) -> None:
        name = found.place.name
        for text in found.warnings:
            self._tell("warning", check, name, text)
        status: Status = "repaired" if self._repairs else "problem"
        for each in found.lost:
            self._tell(status, check, name, f"{_describe_loss(each)}; lost: {found.place.meaning}")
        if found.refused:
            kinds = ", ".join(f"{count} x {kind}" for kind, count in found.refused.items())
            text = f"records that build on lost ones and cannot be applied: {kinds}"
            self._tell(status, check, name, text)

    def _look_at_orphans(self, found: Replayed, orphans: list[Orphan]) -> None:
        adopted = adopt(self._metadata, orphans, self._now) if self._repairs else []
        if self._repairs and (adopted or not found.is_sound):
            skip_producer_ids(self._disk, self._data_dir, self._metadata)
            for record in controller.name_cluster(self._metadata, self._cluster_id).records:
                self._metadata.apply(record)
            repair(self._disk, self._data_dir, found, self._aside)
        for orphan in orphans:
            what = f"{_format_count(orphan.partitions, 'partition')}, {orphan.log_bytes} bytes"
            path = orphan.path.removeprefix(f"{self._data_dir}/")
            if orphan in adopted:
                text = f"{what}: a topic again, with default settings"
                self._tell("repaired", "unknown topic", path, text)
            else:
                text = f"{what}: no record of the metadata names this topic; it is kept, unused"
                self._tell("warning", "unknown topic", path, text)

    # --- topics -----------------------------------------------------------------------------------

    def look_at_topics(self) -> None:
        self.result.cluster_id = self._metadata.cluster_id
        topics = self._metadata.topics.values()
        self.result.topics = sum(not topic.is_internal for topic in topics)
        for name in self._disk.list_directory(f"{self._data_dir}/logs"):
            if not is_internal(name):
                topic = self._metadata.find(name)
                self._look_at_owner(name, topic)
                self._look_at_partitions(name, topic)

    def _look_at_owner(self, name: str, topic: Topic | None) -> None:
        directory = f"{self._data_dir}/logs/{name}"
        try:
            owner = read_owner(self._disk, directory)
            problem = f"{directory}: the file {TOPIC_FILE!r} is missing" if owner is None else ""
        except CorruptData as error:
            problem = str(error)
        if not problem or topic is None:
            return
        if self._repairs:
            path = f"{directory}/{TOPIC_FILE}"
            if self._disk.exists(path):
                kept = f"{self._aside}/logs/{name}/{TOPIC_FILE}"
                self._disk.make_directory(kept.rpartition("/")[0])
                self._disk.rename(path, kept)
            framed.store(self._disk, path, TOPIC_KIND, TOPIC_VERSION, topic.topic_id)
            self._tell("repaired", "topic", name, f"{problem}: rewritten from the metadata")
        else:
            self._tell("problem", "topic", name, f"{problem}: this topic's data is not served")

    def _look_at_partitions(self, name: str, topic: Topic | None) -> None:
        sound = 0
        for index in self._partitions(name):
            report = inspect_log(
                self._disk,
                f"{self._data_dir}/logs/{name}/{index}",
                is_compacted=topic is None or topic.settings.is_compacted,
            )
            self.result.partitions += 1
            self._count(report)
            for text in report.warnings:
                self._tell("warning", "partition", f"{name}-{index}", text)
            for each in report.damage:
                advice = f"restore a backup, or seek to offset {each.next_offset}"
                text = f"{_describe_loss(each)}; {advice}"
                self._tell("problem", "partition", f"{name}-{index}", text)
            sound += not report.damage
        self._tell("ok", "topic", name, _format_count(sound, "sound partition"))
        self._look_at_ledgers(name)
        self._look_at_delays(name)

    def _look_at_ledgers(self, name: str) -> None:
        sound = 0
        for index in self._partitions(name):
            found = replay_ledger(self._disk, self._data_dir, TopicName(name), index)
            if found is None:
                continue
            self._count(found.report)
            self._tell_damage("ledger", found)
            sound += found.is_sound
            if self._repairs and not found.is_sound:
                repair(self._disk, self._data_dir, found, self._aside)
        if sound:
            self._tell("ok", "ledger", name, _format_count(sound, "sound ledger"))

    def _look_at_delays(self, name: str) -> None:
        """The messages that wait, and their timers."""
        sound = 0
        for index in self._partitions(name):
            found = replay_timers(self._disk, self._data_dir, name, index, self._now)
            if found is None:
                continue
            self._count(found.report)
            self._tell_damage("timers", found)
            if self._repairs and not found.is_sound:
                repair(self._disk, self._data_dir, found, self._aside)
            sound += found.is_sound & self._look_at_delay_log(name, index)
        if sound:
            self._tell("ok", "delays", name, _format_count(sound, "sound delay log"))

    def _look_at_delay_log(self, name: str, index: int) -> bool:
        """Whether it is sound."""
        report = inspect_log(self._disk, f"{self._data_dir}/logs/{name}/{index}/{DELAYS}")
        self._count(report)
        subject = f"{name}-{index} ({DELAYS})"
        for text in report.warnings:
            self._tell("warning", "delays", subject, text)
        for each in report.damage:
            text = f"{_describe_loss(each)}; those that wait are not delivered: restore a backup"
            self._tell("problem", "delays", subject, text)
        return not report.damage

    def _partitions(self, name: str) -> Iterator[int]:
        names = self._disk.list_directory(f"{self._data_dir}/logs/{name}")
        yield from sorted(int(each) for each in names if each.isdigit())


def _describe_loss(damage: DamagedRange) -> str:
    return f"{damage} ({_format_count(damage.count, 'record')}) cannot be read{_when(damage)}"


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _when(damage: DamagedRange) -> str:
    known = [
        f" {word} {datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
        for word, time in (("after", damage.after), ("before", damage.before))
        if 0 <= time < TIME_MAX
    ]
    return f", written{' and'.join(known)}" if known else ""
