"""Clients that nobody here wrote, as users of two tenants that have things of the same name."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import httpx
import kafka
import msgspec
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from goqueue.model.config import AuthConfig, GroupsConfig
from tests.conformance.clients import WAIT_S, Aiokafka, Confluent, KafkaPython, Message
from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server
from tests.conformance.test_permissions import python, rdkafka

TENANTS = ("acme", "umbra")
COUNT = 5


class Tenants:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.root = httpx.Client(
            base_url=f"http://{server.http_address}", auth=("root", "root"), timeout=WAIT_S
        )

    def add(self, tenant: str) -> None:
        """With a user of the same name, who may do everything in it."""
        for call in (
            self.root.post("/admin/tenants", json={"id": tenant}),
            self.root.put(f"/admin/tenants/{tenant}/users/{tenant}"),
            self.root.put(f"/admin/users/{tenant}", json={"password": tenant, "roles": ["admin"]}),
        ):
            assert call.status_code < 300, call.text


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    directory = tmp_path_factory.mktemp("tenants")
    password = directory / "password"
    password.write_text("root")
    config = msgspec.structs.replace(
        free_port_config(directory / "data"),
        groups=GroupsConfig(initial_rebalance_delay_ms=0),
        auth=AuthConfig(enabled=True, init_admin="root", init_admin_password_file=str(password)),
    )
    server = Server(config).start()
    found = Tenants(server)
    for tenant in TENANTS:
        found.add(tenant)
        messages = [Message(b"k", f"{tenant} {n}".encode()) for n in range(COUNT)]
        Confluent().write(server.address, "orders", messages, **rdkafka(tenant))
        KafkaPython().write(server.address, "orders", messages, **python(tenant))
        Aiokafka().write(server.address, "orders", messages, **python(tenant))
    yield found
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_reads_its_own_by_regex(tenants: Tenants, protocol: str):
    consumer = confluent_kafka.Consumer(
        {
            **tenants.server.bootstrap,
            **rdkafka("acme"),
            "group.id": f"readers-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["^ord.*"])
    found: list[Any] = []
    while len(found) < 3 * COUNT:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(message)
    assert {each.topic() for each in found} == {"orders"}
    assert all(each.value().startswith(b"acme") for each in found)
    consumer.commit(asynchronous=False)
    consumer.close()
    admin = AdminClient({**tenants.server.bootstrap, **rdkafka("acme")})
    listed = admin.list_consumer_groups().result(WAIT_S).valid
    assert f"readers-{protocol}" in {each.group_id for each in listed}
    others = AdminClient({**tenants.server.bootstrap, **rdkafka("umbra")})
    assert others.list_consumer_groups().result(WAIT_S).valid == []
    assert list(others.list_topics(timeout=WAIT_S).topics) == ["orders"]
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    assert admin.describe_configs([resource])[resource].result(WAIT_S)


def test_kafka_python_and_aiokafka_read_their_own(tenants: Tenants):
    consumer = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=tenants.server.address,
        group_id="pythons",
        auto_offset_reset="earliest",
        **python("umbra"),
    )
    found = [next(consumer) for _ in range(3 * COUNT)]
    assert all(each.value.startswith(b"umbra") for each in found)
    assert consumer.topics() == {"orders"}
    consumer.close()

    async def read() -> list[Any]:
        other = aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=tenants.server.address,
            group_id="pythons",
            auto_offset_reset="earliest",
            **python("acme"),
        )
        await other.start()
        try:
            return [await asyncio.wait_for(other.getone(), WAIT_S) for _ in range(3 * COUNT)]
        finally:
            await other.stop()

    assert all(each.value.startswith(b"acme") for each in asyncio.run(read()))


def test_transactions_of_the_same_id_are_two(tenants: Tenants):
    producers = [
        confluent_kafka.Producer(
            {**tenants.server.bootstrap, **rdkafka(tenant), "transactional.id": "same"}
        )
        for tenant in TENANTS
    ]
    for producer in producers:
        producer.init_transactions(WAIT_S)  # would fence the other one
    for producer, tenant in zip(producers, TENANTS, strict=True):
        producer.begin_transaction()
        producer.produce("paid", tenant.encode())
    for producer in producers:
        producer.commit_transaction(WAIT_S)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_lists_its_own(tenants: Tenants, tmp_path: Path):
    settings = {key: value for key, value in rdkafka("umbra").items() if key != "log_level"}
    options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
    done = subprocess.run(
        ["kcat", "-b", tenants.server.address, "-L", *options],
        capture_output=True,
        check=True,
        timeout=WAIT_S,
        cwd=tmp_path,
    )
    assert b'topic "orders"' in done.stdout
    assert b"acme" not in done.stdout


def test_a_suspended_tenants_connections_end(tenants: Tenants):
    tenants.add("brief")
    Confluent().write(tenants.server.address, "x", [Message(b"", b"1")], **rdkafka("brief"))
    told: list[Any] = []
    producer = confluent_kafka.Producer(
        {**tenants.server.bootstrap, **rdkafka("brief"), "error_cb": told.append}
    )
    producer.produce("x", b"2")
    assert producer.flush(WAIT_S) == 0
    reason = {"reason": "unpaid"}
    assert tenants.root.post("/admin/tenants/brief/suspend", json=reason).status_code == 200
    for _ in range(50):
        producer.poll(0.2)
        if any("unpaid" in each.str() for each in told):
            break
    assert any("unpaid" in each.str() for each in told), told
