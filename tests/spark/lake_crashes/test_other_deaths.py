"""Archives whose broker, or whose executors, are killed while they read: nothing shows."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client.kafka import KafkaClient
from goqueue.spark.lake import FORMATS
from tests.spark.conftest import filling
from tests.spark.crashes.faults import Faults
from tests.spark.crashes.processes import Broker, Driver
from tests.spark.crashes.proxies import KafkaProxy
from tests.spark.lake_crashes.scene import JOB, Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "orders"
CLUSTER = "local-cluster[2,1,512]"
EXECUTORS_KILLED = 3


class Perils:
    """A broker behind a proxy, where blows are struck at the points that are named, in order."""

    def __init__(self, directory: Path) -> None:
        self._faults = Faults()
        self.proxy = KafkaProxy(self._faults, lambda: self.broker.kafka_address)
        self.broker = Broker(directory, advertised=self.proxy.address)
        self._points: deque[str] = deque()
        self._hit: Callable[[], bool] = lambda: False
        self.deaths = 0

    def strike(self, points: Sequence[str], hit: Callable[[], bool]) -> None:
        """`hit` is False when its victim was not there: it is tried again."""
        self._points.extend(points)
        self._hit = hit
        self._arm_next()

    def _arm_next(self) -> None:
        if self._points:
            self._faults.arm(self._points[0], self._strike)

    def _strike(self) -> None:
        if self._hit():
            self._points.popleft()
            self.deaths += 1
        self._arm_next()

    def kill_broker(self) -> bool:
        self.broker.kill_and_start()
        return True


@pytest.fixture
def perils(tmp_path: Path) -> Iterator[Perils]:
    perils = Perils(tmp_path / "data")
    with perils.proxy.running():
        perils.broker.start()
        try:
            yield perils
        finally:
            perils.broker.kill()


@pytest.fixture
def scene(spark: "SparkSession", perils: Perils, tmp_path: Path) -> Scene:
    address = perils.proxy.address
    scene = Scene(spark, address, TOPIC, tmp_path / "lake")
    with KafkaClient(address) as client:
        client.create_topic(TOPIC, partitions=2, settings={"retention.ms": "-1"})
        scene.fill(filling(client))
    return scene


def test_a_broker_may_die_while_an_archive_reads(scene: Scene, perils: Perils):
    die_and_finish(scene, perils, "parquet", ("read", "read"))


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_a_broker_may_die_several_times(scene: Scene, perils: Perils, format: str):
    die_and_finish(scene, perils, format, ("look", "read", "read", "read", "read"))


def die_and_finish(scene: Scene, perils: Perils, format: str, points: Sequence[str]) -> None:
    """The query outlives all of it."""
    perils.strike(points, perils.kill_broker)
    scene.finish(format)
    assert perils.deaths == len(points), f"it died {perils.deaths} times"
    scene.check(format)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("format", FORMATS)
def test_executors_may_die_while_they_archive(
    scene: Scene, perils: Perils, tmp_path: Path, format: str
):
    driver = Driver(tmp_path, scene.settings(format, master=CLUSTER), JOB)
    perils.strike(("read",) * EXECUTORS_KILLED, driver.kill_executor)
    try:
        driver.start()
        assert driver.wait() == 0, driver.log()
    finally:
        driver.end()
    assert perils.deaths == EXECUTORS_KILLED
    scene.check(format)
