"""What clients are told about where else to find the node."""

import contextlib
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Address, Config, HttpConfig, KafkaConfig
from goqueue.runtime import real_environment
from goqueue.server.kafka.connection import KafkaConnection
from goqueue.server.kafka.listener import KafkaListener
from goqueue.server.metrics import Metrics


@pytest.mark.parametrize(
    ("listens", "kafka_advertised", "http_advertised", "told"),
    [
        pytest.param("127.0.0.1", "", "", "127.0.0.1:8080", id="where it listens"),
        pytest.param("0.0.0.0", "", "", "10.0.0.7:8080", id="where the client came in"),
        pytest.param("::", "", "", "10.0.0.7:8080", id="the same, v6"),
        pytest.param("0.0.0.0", "mq.example:19092", "", "mq.example:8080", id="as Kafka's"),
        pytest.param("0.0.0.0", "", "mq.example:80", "mq.example:80", id="as configured"),
    ],
)
def test_a_client_is_told_an_http_address_that_it_can_reach(
    tmp_path: Path, listens: str, kafka_advertised: str, http_advertised: str, told: str
):
    environment = real_environment()
    config = Config(
        data_dir=str(tmp_path),
        kafka=KafkaConfig(advertised=kafka_advertised),
        http=HttpConfig(advertised=http_advertised),
    )
    with contextlib.closing(environment.disk):
        broker = Broker(environment, config)
        listener = KafkaListener(broker, config.kafka, Metrics(broker))
        listener.http_address = Address(listens, 8080)
        connection = KafkaConnection(listener)
        connection.local_host = "10.0.0.7"
        assert str(listener.http_address_for(connection)) == told
