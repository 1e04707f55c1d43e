"""A data directory that an earlier version wrote opens, with everything in it.

`old_directory.py` wrote them, and says how.  Their brokers were killed, so nothing was tidied up.
"""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from goqueue.model.config import StorageConfig
from tests.conformance.group_server import GROUPS
from tests.conformance.http_groups import HttpGroupServer
from tests.conformance.old_directory import (
    ACKED,
    JOBS,
    NACKED,
    ORDERS,
    REJECTED,
    RESULTS,
    SETTINGS,
)

DIRECTORIES = sorted(Path(__file__).with_name("directories").glob("*.tar.gz"))
NEVER_MS = 100 * 365 * 86_400_000  # these directories grow old
HELD = sorted(set(range(JOBS)) - {*ACKED, *REJECTED, *NACKED})

Eventually = Callable[..., None]


@pytest.fixture(scope="module", params=DIRECTORIES, ids=lambda path: path.name.partition(".")[0])
def packed(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module", params=["once", "twice"])
def opened(
    packed: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpGroupServer]:
    """What the first start rewrote must be found again by the second."""
    directory = tmp_path_factory.mktemp("old")
    with tarfile.open(packed) as files:
        files.extractall(directory, filter="data")
    server = HttpGroupServer(
        directory,
        groups=msgspec.structs.replace(GROUPS, offset_retention_ms=NEVER_MS),
        storage=StorageConfig(retention_check_ms=NEVER_MS),
    )
    server.start()
    if request.param == "twice":
        server.kill()
        server.start()
    yield server
    server.kill()


def test_streams_are_as_they_were(opened: HttpGroupServer):
    orders = read_all(opened, "orders", 3)
    assert sorted(orders) == sorted(f"order {number}" for number in range(ORDERS))
    last = {f"product {number % 5}": str(number) for number in range(ORDERS)}
    assert set(last.values()) <= set(read_all(opened, "prices", 1))


def test_committed_offsets_are_as_they_were(opened: HttpGroupServer):
    assert opened.committed("readers") == {"orders": {"0": 10, "1": 20, "2": 30}}


def test_transactions_ended_as_decided_and_the_open_one_is_aborted(
    opened: HttpGroupServer, eventually: Eventually
):
    eventually(lambda: opened.get("/transactions")["transactions"] == [], within_s=30.0)
    assert read_all(opened, "results", 1) == [f"committed {number}" for number in range(RESULTS)]
    for outcome, offset in (("committed", 5), ("aborted", 1), ("open", 1)):
        assert opened.committed(f"group of {outcome}") == {"orders": {"0": offset}}


def test_a_transactional_id_goes_on(opened: HttpGroupServer):
    producer = Producer({**opened.bootstrap, "transactional.id": "committed-by-now"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("later", "goes on", partition=0)
    producer.commit_transaction()
    assert read_all(opened, "later", 1) == ["goes on"]


def test_settings_of_a_queue_are_as_they_were(opened: HttpGroupServer):
    settings = opened.get("/groups/billing/queue")["settings"]
    assert {name: settings[name] for name in SETTINGS} == SETTINGS


def test_dead_letters_are_as_they_were(opened: HttpGroupServer, eventually: Eventually):
    eventually(lambda: opened.get("/topics/jobs/dlq")["count"] == len(REJECTED))
    letters = opened.get("/topics/jobs/dlq")["messages"]
    assert sorted(each["value"] for each in letters) == sorted(f"job {n}" for n in REJECTED)


def test_a_queue_delivers_what_was_not_acked_and_nothing_else(opened: HttpGroupServer):
    """What a worker held is held until its visibility time-out, which has long passed by now."""
    for _ in range(JOBS):
        found = opened.post("/queues/jobs/receive", group="billing", max_messages=JOBS, wait="1s")
        if not found["messages"]:
            break
    held = opened.get("/groups/billing/in-flight")["messages"]
    places = [(each["partition"], each["offset"]) for each in held]
    assert sorted(places) == sorted((number % 2, number // 2) for number in (*HELD, *NACKED))
    assert {each["attempt"] for each in held} <= {1, 2}


def read_all(server: HttpGroupServer, topic: str, partitions: int) -> list[str]:
    consumer = Consumer(
        {
            **server.bootstrap,
            "group.id": "reads everything",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values, ended = list[str](), 0
    for _ in range(10_000):
        message = consumer.poll(30.0)
        assert message is not None, f"{len(values)} messages, then nothing"
        if message.error() is None:
            values.append(message.value().decode())
        else:
            ended += 1
        if ended == partitions:
            break
    consumer.close()
    return values
