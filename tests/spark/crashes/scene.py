"""A topic is copied by a job that is struck on the way; then both are compared."""

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import confluent_kafka
import msgspec
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from goqueue.client import Client
from goqueue.client.http.calls import transactions as calls
from tests.conformance.transactional_clients import READERS
from tests.spark.crashes.faults import Faults
from tests.spark.crashes.job import Settings, started
from tests.spark.crashes.processes import Broker, Driver
from tests.spark.crashes.proxies import HttpProxy, KafkaProxy

Victim = Literal["driver", "executor", "broker"]

PARTITIONS = 3
ROWS_A_BATCH = 600
LIVES_SPARE = 3  # a broker's death may cost the driver its life
WAIT_S = 60.0


class Blow(msgspec.Struct, frozen=True):
    victim: Victim
    point: str
    passage: int = 1


class Scene:
    """A broker, two proxies before it, and a driver that sees only those.

    There must be more batches than blows that leave a decision behind: each of those uses one up.
    """

    def __init__(
        self,
        directory: Path,
        kind: str,
        *,
        seed: int,
        batches: int,
        master: str = "local[2]",
        jars: Sequence[Path] = (),
    ) -> None:
        self._rows = batches * ROWS_A_BATCH
        self._faults = Faults()
        self._http = HttpProxy(self._faults, lambda: self._broker.http_address, seed)
        self._kafka = KafkaProxy(self._faults, lambda: self._broker.kafka_address)
        self._broker = Broker(directory / "data", advertised=self._kafka.address)
        self._blows: deque[Blow] = deque()
        self._is_armed = False
        self._settings = Settings(
            kind=kind,
            bootstrap=self._kafka.address,
            http=self._http.address,
            source="source",
            target="target",
            checkpoint=str(directory / "checkpoint"),
            rows_a_batch=ROWS_A_BATCH,
            master=master,
            jars=tuple(str(jar) for jar in jars),
        )
        self._driver = Driver(directory, self._settings)

    @contextlib.contextmanager
    def running(self) -> Iterator["Scene"]:
        with self._http.running(), self._kafka.running():
            self._broker.start()
            try:
                self._feed()
                yield self
            finally:
                self._driver.end()
                self._broker.kill()

    def _feed(self) -> None:
        server = {"bootstrap.servers": self._kafka.address}
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("source", "target")]
        admin = AdminClient(server)
        for made in admin.create_topics(topics).values():
            made.result(WAIT_S)
        producer = confluent_kafka.Producer(server | {"enable.idempotence": True})
        for value in self.expected:
            producer.produce("source", value, key=value[-1:])
        assert producer.flush(WAIT_S) == 0

    # --- the copy ---------------------------------------------------------------------------------

    def copy(self, blows: Sequence[Blow]) -> None:
        """Start the job again and again until it has ended well, and every blow was struck."""
        self._blows.extend(blows)
        self._start_until(lambda ended_well: ended_well)
        assert not self._blows, f"never struck: {self._blows}"
        assert not self._is_armed, "the last blow was never struck"

    def copy_until_killed(self, blows: Sequence[Blow]) -> None:
        """Start the job, again if need be, until every blow was struck, and it died of the last."""
        self._blows.extend(blows)
        self._start_until(lambda _: not self._blows and not self._is_armed)

    def finish(self, spark: SparkSession) -> None:
        """In a session that is there: quicker than one more process."""
        started(self._settings, spark).awaitTermination()

    def _start_until(self, is_enough: Callable[[bool], bool]) -> None:
        for _ in range(len(self._blows) + LIVES_SPARE):
            if not self._is_armed:
                self._arm_next()
            self._driver.start()
            if is_enough(self._driver.wait() == 0):
                return
        raise AssertionError(f"the job does not end\n{self._driver.log()}\n{self._broker.log()}")

    def copy_beside_a_frozen_driver(self) -> int:
        """One driver hangs before its first decision, and a second one does the work.

        Gives how the first one ends when it comes to itself.
        """
        self._faults.arm("decision:before", self._driver.freeze)
        self._driver.start()
        assert self._faults.fired.wait(WAIT_S * 10), self._driver.log()
        self._driver.start()
        assert self._driver.wait() == 0, self._driver.log()
        self._driver.thaw(0)
        return self._driver.wait(0)

    def _arm_next(self) -> None:
        if self._blows:
            self._is_armed = True
            self._arm(self._blows.popleft())

    def _arm(self, blow: Blow) -> None:
        self._faults.arm(blow.point, lambda: self._strike(blow), passage=blow.passage)

    def _strike(self, blow: Blow) -> None:
        if not self._hit(blow.victim):
            self._arm(blow)
            return
        self._is_armed = False
        if blow.victim != "driver":  # whose next blow is for its next life
            self._arm_next()

    def _hit(self, victim: Victim) -> bool:
        """False when it was not there."""
        match victim:
            case "driver":
                return self._driver.kill()
            case "executor":
                return self._driver.kill_executor()
            case "broker":
                self._broker.kill_and_start()
                return True

    def log(self) -> str:
        return self._driver.log()

    # --- the comparison ---------------------------------------------------------------------------

    @property
    def expected(self) -> Counter[bytes]:
        return Counter(b"message %d" % number for number in range(self._rows))

    def found(self) -> Counter[bytes]:
        read = READERS["confluent"]
        return Counter(read(self._kafka.address, "target", PARTITIONS, "read_committed"))

    def check(self) -> None:
        found, expected = self.found(), self.expected
        assert found - expected == Counter(), "there are duplicates"
        assert expected - found == Counter(), "there are losses"
        with Client(f"http://{self._broker.http_address}") as client:
            assert client.send(calls.transactions()).transactions == [], "something is left open"
