"""Archives whose broker is killed while they read: it comes back, and nothing shows."""

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client.kafka import KafkaClient
from goqueue.spark.lake import FORMATS
from tests.spark.conftest import filling
from tests.spark.crashes.faults import Faults
from tests.spark.crashes.processes import Broker
from tests.spark.crashes.proxies import KafkaProxy
from tests.spark.lake_crashes.scene import Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "orders"


class MortalBroker:
    """Dies at the points that are named, in this order, and is started again at once."""

    def __init__(self, directory: Path) -> None:
        self._faults = Faults()
        self.proxy = KafkaProxy(self._faults, lambda: self.broker.kafka_address)
        self.broker = Broker(directory, advertised=self.proxy.address)
        self._points: deque[str] = deque()
        self.deaths = 0

    def die_at(self, points: Sequence[str]) -> None:
        self._points.extend(points)
        self._arm_next()

    def _arm_next(self) -> None:
        if self._points:
            self._faults.arm(self._points.popleft(), self._strike)

    def _strike(self) -> None:
        self.broker.kill_and_start()
        self.deaths += 1
        self._arm_next()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    mortal = MortalBroker(tmp_path / "data")
    with mortal.proxy.running():
        mortal.broker.start()
        try:
            yield mortal
        finally:
            mortal.broker.kill()


@pytest.fixture
def scene(spark: "SparkSession", mortal: MortalBroker, tmp_path: Path) -> Scene:
    address = mortal.proxy.address
    scene = Scene(spark, address, TOPIC, tmp_path / "lake")
    with KafkaClient(address) as client:
        client.create_topic(TOPIC, partitions=2, settings={"retention.ms": "-1"})
        scene.fill(filling(client))
    return scene


def test_a_broker_may_die_while_an_archive_reads(scene: Scene, mortal: MortalBroker):
    die_and_finish(scene, mortal, "parquet", ("read", "read"))


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_a_broker_may_die_several_times(scene: Scene, mortal: MortalBroker, format: str):
    die_and_finish(scene, mortal, format, ("look", "read", "read", "read", "read"))


def die_and_finish(scene: Scene, mortal: MortalBroker, format: str, points: Sequence[str]) -> None:
    """The query outlives all of it."""
    mortal.die_at(points)
    scene.finish(format)
    assert mortal.deaths == len(points), f"it died {mortal.deaths} times"
    scene.check(format)
