"""An idempotent producer that repeats until it is answered, and a reader from the beginning."""

from pathlib import Path

from tests.chaos.cluster import Cluster, ClusterWitness
from tests.chaos.load.load import Load

MESSAGES = 10  # at once
PAUSE_S = 0.02
FLUSH_S = 60.0


class StreamLoad(Load):
    def __init__(self, cluster: Cluster, witness: ClusterWitness, histories: Path) -> None:
        super().__init__(f"stream-{witness.topic}", histories)
        self.witness = witness
        self._producer = witness.repeating_producer(cluster)

    def step(self) -> None:
        for _ in range(MESSAGES):
            self.witness.produce(self._producer)
        self._producer.poll(0)
        self.pause(PAUSE_S)

    def close(self) -> None:
        left = self._producer.flush(FLUSH_S)
        for partition, acked in enumerate(self.witness.acked):
            self.file.note("acked", partition=partition, numbers=acked)
        assert left == 0, f"{left} messages are not answered"
        assert self.witness.refused == {}, list(self.witness.refused.items())[:3]
