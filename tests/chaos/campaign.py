"""All kinds of clients on a cluster of three, faults one after the other, then judgement."""

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.client import Client
from tests.chaos.cluster import (
    FOLLOW_S,
    NODES,
    Cluster,
    ClusterWitness,
    Reader,
    check_replicas_agree,
)
from tests.chaos.faults import Fault
from tests.chaos.load.groups import GroupHistory, Member, OffsetObserver, Protocol
from tests.chaos.load.http import TOPIC as WEB
from tests.chaos.load.http import HttpPublisher
from tests.chaos.load.load import HistoryFile, Load
from tests.chaos.load.queues import GROUP, TOPIC, Publisher, QueueHistory, Worker
from tests.chaos.load.streams import StreamLoad
from tests.chaos.load.transactions import (
    PARTITIONS as TARGET_PARTITIONS,
)
from tests.chaos.load.transactions import (
    TARGETS,
    CommittedReader,
    Mover,
    SharedHistory,
    check_exactly_once,
    read_all,
)

STREAM = "t"
STREAM_PARTITIONS = 6
SOURCE = "in"  # of the transactions
SOURCE_PARTITIONS = 4
QUEUE_PARTITIONS = 3
TOPICS = {
    STREAM: STREAM_PARTITIONS,
    SOURCE: SOURCE_PARTITIONS,
    TOPIC: QUEUE_PARTITIONS,
    **dict.fromkeys((*TARGETS, WEB), TARGET_PARTITIONS),
}
PATIENT_S = 120.0  # until everything is settled, after the last fault
HOLD_S = (1.0, 6.0)  # how long a fault lasts
PROTOCOLS: dict[Protocol, str] = {"classic": "classic-group", "consumer": "new-group"}

Eventually = Callable[..., None]


class Gaps:
    """How long nobody was acked in a partition, for each kind of fault."""

    def __init__(self) -> None:
        self._by_kind: defaultdict[str, list[float]] = defaultdict(list)

    def note(self, kind: str, seconds: float) -> None:
        self._by_kind[kind].append(seconds)

    def lines(self) -> Iterator[str]:
        for kind, found in self._by_kind.items():
            found = sorted(found)
            middle = found[len(found) // 2]
            yield (
                f"{kind:16} {len(found):4} times, no ack for {found[0]:.2f} s at least,"
                f" {middle:.2f} s in the middle, {found[-1]:.2f} s at most"
            )


class Campaign:
    def __init__(self, cluster: Cluster, histories: Path, seed: int) -> None:
        self.cluster = cluster
        self.gaps = Gaps()
        self.chance = random.Random(seed)
        self.witness = ClusterWitness(STREAM, STREAM_PARTITIONS, seed)
        self._source = ClusterWitness(SOURCE, SOURCE_PARTITIONS, seed)
        self._shared = SharedHistory()
        self._queue = QueueHistory()
        self._groups = {each: GroupHistory(name) for each, name in PROTOCOLS.items()}
        self._faults = HistoryFile(histories / "faults.jsonl")
        self._histories = histories

    # --- clients ----------------------------------------------------------------------------------

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        made = admin.create_topics([NewTopic(name, n, NODES) for name, n in TOPICS.items()])
        for each in made.values():
            each.result(30)
        with Client(self.cluster.nodes[1].http) as client:
            client.change_queue_settings(GROUP, {"max_failures": 1000, "max_timeouts": 1000})

    def _writers(self) -> list[Load]:
        cluster, histories = self.cluster, self._histories
        return [
            StreamLoad(cluster, self.witness, histories),
            StreamLoad(cluster, self._source, histories),
            Publisher(cluster, self._queue, histories),
            self._web,
        ]

    def _readers(self) -> list[Load]:
        cluster, histories = self.cluster, self._histories
        movers: list[Load] = [
            Mover(each, cluster, SOURCE, self._shared, histories) for each in range(2)
        ]
        workers = [Worker(each, cluster, self._queue, histories) for each in range(3)]
        members: list[Load] = []
        for protocol, history in self._groups.items():
            members += [
                Member(each, protocol, cluster, STREAM, history, histories) for each in range(2)
            ]
            members.append(OffsetObserver(cluster, STREAM, STREAM_PARTITIONS, history, histories))
        return [*movers, CommittedReader(cluster, self._shared, histories), *workers, *members]

    # --- the run ----------------------------------------------------------------------------------

    def run(self, kinds: Sequence[str], rounds: int, eventually: Eventually) -> None:
        self._web = HttpPublisher(self.cluster, self._histories)
        writers, readers = self._writers(), self._readers()
        self._loads = [*writers, *readers]
        with Reader(self.cluster, STREAM, STREAM_PARTITIONS) as reader, running(self._loads):
            eventually(lambda: self.witness.acks > 500, within_s=FOLLOW_S)
            for _, kind in zip(range(rounds), itertools.cycle(kinds), strict=False):
                self._make(kind, eventually)
            for each in writers:
                each.end()
            self._wait_for_readers(eventually)
            eventually(lambda: reader.has_seen(self.witness), within_s=PATIENT_S)
        self._check(reader)

    def _make(self, kind: str, eventually: Eventually) -> None:
        eventually(self.cluster.is_whole, within_s=PATIENT_S)
        fault = Fault(self.cluster, self.chance, kind, STREAM)
        self._faults.note("begins", fault=str(fault))
        self.witness.forget_gap()
        fault.begin()
        self._wait(self.chance.uniform(*HOLD_S))
        is_served = self.witness.has_acked_everywhere
        if is_served:
            self.gaps.note(kind, self.witness.gap_s)
        fault.end(eventually)
        self._faults.note("ends", fault=str(fault))
        eventually(self._is_served, within_s=PATIENT_S)
        if not is_served:
            self.gaps.note(f"{kind}+start", self.witness.gap_s)

    def _is_served(self) -> bool:
        """Or why it will never be."""
        for each in self._loads:
            each.check_alive()
        return self.witness.has_acked_everywhere

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)  # rule-ok: the fault lasts so long

    def _wait_for_readers(self, eventually: Eventually) -> None:
        eventually(self.cluster.is_whole, within_s=PATIENT_S)
        eventually(lambda: not self._queue.unfinished, within_s=PATIENT_S)
        for history in self._groups.values():
            eventually(lambda: not history.unseen(self.witness.acked), within_s=PATIENT_S)  # noqa: B023  # asked at once
        expected = 2 * self._source.acks
        eventually(lambda: self._moved() >= expected, within_s=3 * PATIENT_S)

    def _moved(self) -> int:
        return len(self._shared.history.seen)

    # --- judgement --------------------------------------------------------------------------------

    def _check(self, reader: Reader) -> None:
        reader.check(self.witness)
        history = self._shared.history
        history.final = read_all(self.cluster, PATIENT_S)
        assert history.anomalies() == {}
        check_exactly_once(history.final, self._source.acked)
        assert self._queue.anomalies() == []
        for each in self._groups.values():
            assert each.anomalies() == []
        with Client(self.cluster.nodes[2].http) as client:
            self._web.check(client)
        assert self.witness.check(self.cluster.nodes[1]) == self.witness.numbers

    def check_replicas(self) -> None:
        """When all nodes have stopped in good order."""
        for topic, count in TOPICS.items():
            check_replicas_agree(self.cluster, topic, count)


@contextmanager
def running(loads: Sequence[Load]) -> Iterator[None]:
    started: list[Load] = []
    try:
        for each in loads:
            each.start()
            started.append(each)
        yield
    finally:
        for each in started:
            each.ask_to_end()
    for each in started:
        each.end()
