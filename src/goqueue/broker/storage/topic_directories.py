"""The directories of topics: whose they are, and what becomes of those of deleted topics.

    logs/{topic}/topic              which topic the directory belongs to, by its id
    logs/{topic}/{partition}/…      see `goqueue.log`
    logs/{topic}/{partition}/ledger/…   the partition's queue ledger, a log of its own; with a topic
                                    that no queue group consumes there is none
    logs/{topic}/{partition}/delays/…, timers/…   messages that are not due yet, and when they are
    deleted/{topic id}/             on its way out; removed in the background and at start-up
    orphaned/{topic}.{topic id}/    see `orphans.py`; never removed

A name may be taken by another topic before the files of the former one are gone.  So a directory
is opened or moved away only for the id that is written in it.

All of it blocks: the event loop has a disk thread do it.
"""

import threading
from collections.abc import Callable, Collection, Iterable

import structlog

from goqueue.broker.storage.bundle import BESIDE, LEDGER
from goqueue.broker.storage.orphans import (
    TOPIC_FILE,
    TOPIC_KIND,
    TOPIC_VERSION,
    Orphan,
    find_orphans,
    read_owner,
)
from goqueue.cluster import Topic
from goqueue.log import checkpoint as checkpoints
from goqueue.log import framed
from goqueue.model.errors import CorruptData, GoQueueError, TopicNotFound
from goqueue.model.ids import Timestamp, TopicId, TopicIdPartition
from goqueue.model.names import is_internal
from goqueue.runtime import Disk

_log = structlog.get_logger("goqueue.partitions")


class TopicDirectories:
    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self.logs = f"{data_dir}/logs"
        self._deleted = f"{data_dir}/deleted"
        self._orphaned = f"{data_dir}/orphaned"
        self._lock = threading.Lock()  # held while a topic's directory changes hands
        self._removing = threading.Lock()
        self.topic_exists: Callable[[TopicId], bool] = lambda _topic_id: True
        self.topic_was_deleted: Callable[[TopicId], bool] = lambda _topic_id: False

    # --- partitions -------------------------------------------------------------------------------

    def partition_directory(self, topic: str, index: int) -> str:
        return f"{self.logs}/{topic}/{index}"

    def ledger_directory(self, topic: str, index: int) -> str:
        return f"{self.partition_directory(topic, index)}/{LEDGER}"

    def make_ledger_directory(self, topic: Topic, index: int) -> str:
        """In the topic's own directory, whatever was there before."""
        self.claim(topic.name, topic.topic_id)
        directory = self.ledger_directory(topic.name, index)
        self._disk.make_directory(directory)
        return directory

    def stored_beside(self, topic: str, index: int) -> list[str]:
        """The kinds of logs that the partition has beside its data."""
        directory = self.partition_directory(topic, index)
        return [kind for kind in BESIDE if self._disk.exists(f"{directory}/{kind}")]

    def stored_ledgers(self, topics: Iterable[Topic]) -> list[tuple[Topic, int]]:
        """The partitions that have one."""
        return self.find_with(topics, LEDGER)

    def find_with(self, topics: Iterable[Topic], kind: str) -> list[tuple[Topic, int]]:
        """The partitions that have such a log."""
        return [
            (topic, index)
            for topic in topics
            for index in self._stored_indexes(topic)
            if self._disk.exists(f"{self.partition_directory(topic.name, index)}/{kind}")
        ]

    def _stored_indexes(self, topic: Topic) -> list[int]:
        names = self._disk.list_directory(f"{self.logs}/{topic.name}")
        found = sorted(int(name) for name in names if name.isdigit())
        if not found or self._readable_owner(topic.name) != topic.topic_id:
            return []
        return [index for index in found if topic.has_partition(index)]

    def stored_bytes(self, topic: Topic, index: int) -> int:
        """How much the partition's records take."""
        directory = f"{self.logs}/{topic.name}/{index}"
        names = [name for name in self._disk.list_directory(directory) if name.endswith(".log")]
        try:
            return sum(self._disk.size(f"{directory}/{name}") for name in names)
        except FileNotFoundError:  # the topic is being deleted
            return 0

    def may_have_old(self, topic: Topic, index: int, now: Timestamp) -> bool:
        """Whether it is worth opening for retention's sake."""
        directory = f"{self.logs}/{topic.name}/{index}"
        names = self._disk.list_directory(directory)
        if sum(name.endswith(".log") for name in names) != 1:
            return bool(names)
        try:
            checkpoint = checkpoints.load(self._disk, directory)
        except CorruptData:
            return True
        if checkpoint is None or checkpoint.tail.size == 0:
            return False
        oldest_kept = now - topic.settings.retention_ms
        return topic.settings.retention_ms >= 0 and checkpoint.tail.max_timestamp < oldest_kept

    # --- owners -----------------------------------------------------------------------------------

    def claim(self, topic: str, topic_id: TopicId) -> None:
        """Make the directory the topic's, or raise what keeps it from that."""
        with self._lock:
            self._claim(topic, topic_id)

    def _claim(self, topic: str, topic_id: TopicId) -> None:
        """A directory left by another topic of the same name is moved away first.

        One that has partitions and does not say whose they are is left to the operator: they may
        well be this topic's.  So are those of an internal topic: before there was a cluster its
        directory had no such file.
        """
        if not self.topic_exists(topic_id):
            raise TopicNotFound(f"topic {topic!r} was deleted")
        directory = f"{self.logs}/{topic}"
        owner = self._owner(topic)
        if owner == topic_id:
            return
        if owner is not None and self.topic_was_deleted(owner):
            self._move_to_deleted(topic, owner)
        elif owner is not None:
            self._set_aside(topic, owner)
        elif not is_internal(topic) and self._has_partitions(directory):
            raise CorruptData(
                f"{directory} has data, and the file {TOPIC_FILE!r} that says whose is missing:"
                f" restore it (the topic's id is {topic_id}), or move the directory away"
            )
        self._disk.make_directory(directory)
        framed.store(self._disk, f"{directory}/{TOPIC_FILE}", TOPIC_KIND, TOPIC_VERSION, topic_id)

    def _has_partitions(self, directory: str) -> bool:
        return any(name.isdigit() for name in self._disk.list_directory(directory))

    def _owner(self, topic: str) -> TopicId | None:
        """None when there is no file that says; raises `CorruptData`."""
        return read_owner(self._disk, f"{self.logs}/{topic}")

    # --- deleting ---------------------------------------------------------------------------------

    def remove_topic(self, topic: str, topic_id: TopicId) -> None:
        """The data of a topic that is deleted."""
        with self._lock:
            if self._owner(topic) == topic_id:
                self._move_to_deleted(topic, topic_id)
        self.remove_deleted()

    def remove_replica(self, topic: str, topic_id: TopicId, index: int) -> None:
        """The data of a partition that is on other nodes."""
        with self._lock:
            source = f"{topic}/{index}"
            if self._owner(topic) != topic_id or not self._disk.exists(f"{self.logs}/{source}"):
                return
            self._move_away(source, f"{self._deleted}/{topic_id}-{index}")
        self.remove_deleted()

    def stored_replicas(self) -> list[TopicIdPartition]:
        """The partitions that have files here, whoever has them now."""
        with self._lock:
            return [
                TopicIdPartition(owner, int(index))
                for topic in self._disk.list_directory(self.logs)
                if (owner := self._readable_owner(topic)) is not None
                for index in self._disk.list_directory(f"{self.logs}/{topic}")
                if index.isdigit()
            ]

    def _readable_owner(self, topic: str) -> TopicId | None:
        """None too when the file is damaged: whoever opens a partition of it is told."""
        try:
            return self._owner(topic)
        except CorruptData:
            return None

    def _move_to_deleted(self, topic: str, owner: TopicId) -> None:
        self._move_away(topic, f"{self._deleted}/{owner}")

    def _set_aside(self, topic: str, owner: TopicId) -> None:
        target = self._move_away(topic, f"{self._orphaned}/{topic}.{owner}")
        _log.warning(
            "data of an unknown topic set aside: a new topic has its name",
            topic=topic,
            topic_id=str(owner),
            path=target,
        )

    def _move_away(self, source: str, target: str) -> str:
        """A topic's directory, or a partition's; with the lock held."""
        parent = target.rpartition("/")[0]
        self._disk.make_directory(parent)
        while self._disk.exists(target):
            target += "+"
        path = f"{self.logs}/{source}"
        self._disk.rename(path, target)
        self._disk.sync_directory(path.rpartition("/")[0])
        self._disk.sync_directory(parent)
        return target

    def remove_deleted(self) -> None:
        """What was moved away."""
        with self._removing:
            for name in self._disk.list_directory(self._deleted):
                self._disk.remove_tree(f"{self._deleted}/{name}")

    def finish_deletions(self, deleted: Collection[TopicId]) -> bool:
        """Remove the data of topics whose deletion a crash or an error interrupted.

        `deleted` are those of the start: they are durable.  True when all of it is gone.
        """
        is_done = True
        for name in self._disk.list_directory(self.logs) if deleted else ():
            if is_internal(name):
                continue
            try:
                self._finish_deletion(name, deleted)
            except GoQueueError as error:
                is_done = False
                _log.error("directory left alone", path=f"{self.logs}/{name}", problem=str(error))
        self.remove_deleted()
        return is_done

    def _finish_deletion(self, name: str, deleted: Collection[TopicId]) -> None:
        with self._lock:
            owner = self._owner(name)
            if owner is not None and owner in deleted:
                _log.info("removing data of a deleted topic", topic=name)
                self._move_to_deleted(name, owner)

    def orphans(self) -> list[Orphan]:
        """Directories with data that the metadata does not account for."""
        with self._lock:
            return find_orphans(
                self._disk,
                self._data_dir,
                lambda owner: self.topic_exists(owner) or self.topic_was_deleted(owner),
            )

    def report_orphans(self) -> None:
        """To the log."""
        for orphan in self.orphans():
            _log.warning(
                "data of an unknown topic left alone: the metadata has no record of it",
                path=orphan.path,
                topic=orphan.topic,
                topic_id=str(orphan.topic_id or "unknown"),
                log_bytes=orphan.log_bytes,
            )

    def refuse_unknown_topics(self) -> None:
        """Without metadata every topic would be an orphan."""
        for name in self._disk.list_directory(self.logs):
            if not is_internal(name) and self._disk.exists(f"{self.logs}/{name}/{TOPIC_FILE}"):
                raise CorruptData(
                    f"{self.logs} holds topic {name!r}, and the metadata that should know it is"
                    " missing: restore logs/__metadata and snapshots/, run `goqueue doctor"
                    f" --data-dir {self._data_dir} --repair`, or start with an empty directory"
                )
