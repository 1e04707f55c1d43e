"""A server for all tests, and a topic for each."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.model.config import Config, HttpConfig, KafkaConfig
from tests.conformance.clients import Aiokafka, Client, Confluent, KafkaPython, Kcat
from tests.conformance.server import Server

CLIENTS = ("confluent", "kafka-python", "aiokafka", "kcat")

MakeTopic = Callable[..., str]


def free_port_config(data_dir: object) -> Config:
    return Config(
        data_dir=str(data_dir),
        kafka=KafkaConfig(listen="127.0.0.1:0"),
        http=HttpConfig(listen="127.0.0.1:0"),
    )


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(free_port_config(tmp_path_factory.mktemp("data"))).start()
    yield server
    assert server.is_running, server.log()
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def own_server(tmp_path: Any) -> Iterator[Server]:
    """One that the test may stop and start."""
    server = Server(free_port_config(tmp_path)).start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def admin(server: Server) -> AdminClient:
    return AdminClient(server.bootstrap)


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    """Fresh topic names."""
    return (f"topic-{uuid.uuid4().hex[:8]}-{number}" for number in itertools.count())


@pytest.fixture
def make_topic(admin: AdminClient, names: Iterator[str]) -> MakeTopic:
    def make(partitions: int = 1, **settings: object) -> str:
        config = {name.replace("_", "."): str(value) for name, value in settings.items()}
        topic = NewTopic(next(names), partitions, 1, config=config)
        admin.create_topics([topic])[topic.topic].result(10)
        return str(topic.topic)

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic of one partition."""
    return make_topic()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return client_of(request, request.param)


def client_of(request: pytest.FixtureRequest, name: str) -> Client:
    match name:
        case "confluent":
            return Confluent()
        case "kafka-python":
            return KafkaPython()
        case "aiokafka":
            return Aiokafka()
        case _:
            return Kcat(request.getfixturevalue("kcat"))
