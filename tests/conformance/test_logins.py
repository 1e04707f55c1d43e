"""Clients that nobody here wrote log in, with each mechanism, over TLS and without."""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import httpx
import kafka
import kafka.errors
import msgspec
import pytest
from confluent_kafka import KafkaError
from cryptography import x509

from goqueue.client import BadLogin, Client, Forbidden, NoAnswer, Unauthorized
from goqueue.client.kafka import KafkaClient, KafkaRefused, parse_login
from tests.conformance.clients import WAIT_S, Aiokafka, Confluent, KafkaPython, Message
from tests.conformance.guarded import Guarded

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
MESSAGES = [Message(b"k", b"%d" % n) for n in range(20)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("guarded"))
    yield guarded
    guarded.server.stop()
    assert "Traceback" not in guarded.server.log(), guarded.server.log()
    for secret in ("s3cret", "eyJ"):  # a password, and what every token begins with
        assert secret not in guarded.server.log()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_three_libraries_log_in(guarded: Guarded, mechanism: str):
    address, topic = guarded.server.address, f"t-{mechanism}"
    Confluent().write(address, topic, MESSAGES, **guarded.rdkafka(mechanism))
    KafkaPython().write(address, topic, MESSAGES, **guarded.python(mechanism))
    Aiokafka().write(address, topic, MESSAGES, **guarded.python(mechanism))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            **guarded.rdkafka(mechanism),
        }
    )
    consumer.subscribe([topic])
    read: list[bytes | None] = []
    for _ in range(200):
        read += [each.value() for each in consumer.consume(100, 0.2) if each.error() is None]
        if len(read) == 3 * len(MESSAGES):
            break
    consumer.close()
    assert Counter(read) == Counter(3 * [each.value for each in MESSAGES])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_as_that(guarded: Guarded, mechanism: str):
    errors: list[KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": guarded.server.address,
            "error_cb": errors.append,
            "log_level": 0,
            **guarded.rdkafka(mechanism, "wrong"),
        }
    )
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "the password is wrong" in errors[0].str()

    async def ask() -> None:
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=guarded.server.address, **guarded.python(mechanism, "wrong")
        )
        try:
            with pytest.raises(aiokafka.errors.KafkaConnectionError):
                await client.start()
        finally:
            await client.stop()

    asyncio.run(ask())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_kafka_client_logs_in(guarded: Guarded, mechanism: str):
    login = parse_login(guarded.rdkafka(mechanism))
    with KafkaClient(guarded.server.address, login=login, timeout_s=WAIT_S) as client:
        client.create_topic(f"own-{mechanism}")
        assert f"own-{mechanism}" in client.metadata(None)
    wrong = parse_login(guarded.rdkafka(mechanism, "wrong"))
    with (
        KafkaClient(guarded.server.address, login=wrong, timeout_s=WAIT_S) as client,
        pytest.raises(KafkaRefused, match="the password is wrong"),
    ):
        client.metadata(None)
    strangers = msgspec.structs.replace(login, ca_file=None)
    with (
        KafkaClient(guarded.server.address, login=strangers, timeout_s=WAIT_S) as client,
        pytest.raises(BadLogin, match=r"not trusted here.*ssl\.ca\.location"),
    ):
        client.metadata(None)


def test_our_own_http_client_logs_in(guarded: Guarded):
    url, ca_file = f"https://{guarded.server.http_address}", guarded.authority.file
    with Client(url, user="root", password="s3cret", ca_file=ca_file) as client:
        client.put_user("reader", roles=["readonly"], password="r")
        key = client.create_api_key("for-reader", user="reader").key
    with Client(url, api_key=key, ca_file=ca_file) as client, pytest.raises(Forbidden):
        client.users()
    with (
        Client(url, user="reader", password="x", ca_file=ca_file) as client,
        pytest.raises(Unauthorized, match="the password is wrong"),
    ):
        client.topics()
    cert_file, key_file = guarded.authority.issue("operator")
    with Client(url, ca_file=ca_file, cert_file=cert_file, key_file=key_file) as client:
        assert "reader" in [each.name for each in client.users()]
    with Client(url) as client, pytest.raises(BadLogin, match=r"not trusted here.*ca_file"):
        client.topics()
    with (
        Client(f"http://{guarded.server.http_address}", retries=0) as client,
        pytest.raises(NoAnswer, match="begins with https:"),
    ):
        client.topics()


def test_before_a_login_nothing_is_served(guarded: Guarded):
    producer = kafka.KafkaProducer
    with pytest.raises(kafka.errors.KafkaError):
        producer(
            bootstrap_servers=guarded.server.address,
            security_protocol="SSL",
            ssl_context=guarded.context,
            api_version=(3, 0),
            max_block_ms=2_000,
        ).send("t", b"x").get(WAIT_S)
    with httpx.Client(verify=guarded.context) as client:
        url = f"https://{guarded.server.http_address}"
        assert client.get(f"{url}/topics").status_code == 401
        assert client.get(f"{url}/readyz").status_code == 200
        assert client.get(f"{url}/topics", auth=("root", "s3cret")).status_code == 200


def test_a_token_says_who_it_is(guarded: Guarded):
    settings: dict[str, Any] = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": guarded.authority.file,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (guarded.token(), time.time() + 600),
    }
    Confluent().write(guarded.server.address, "by-token", MESSAGES, **settings)
    with httpx.Client(verify=guarded.context) as client:
        url = f"https://{guarded.server.http_address}/topics"
        found = client.get(url, headers={"Authorization": f"Bearer {guarded.token()}"})
        assert "by-token" in found.json()["topics"]
        stale = guarded.token(seconds=-600)
        refused = client.get(url, headers={"Authorization": f"Bearer {stale}"})
        assert refused.status_code == 401
        assert "expired" in refused.text


def test_a_connection_ends_with_its_token(guarded: Guarded, eventually: Callable[..., None]):
    """Unless its client logs in again, as librdkafka does by itself."""
    logins: list[float] = []

    def make_token(_: object) -> tuple[str, float]:
        logins.append(time.time())
        return guarded.token(seconds=4), time.time() + 4

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": guarded.server.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": guarded.authority.file,
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": make_token,
            "log_level": 0,
        }
    )
    delivered: list[object] = []

    def produce() -> bool:
        producer.produce("short", b"x", on_delivery=lambda error, _: delivered.append(error))
        producer.flush(10)
        return len(logins) >= 3

    eventually(produce, within_s=30)
    assert delivered
    assert not any(delivered)


def test_a_certificate_says_who_it_is(guarded: Guarded):
    certificate, key = guarded.authority.issue("operator")
    settings: dict[str, Any] = {
        "security.protocol": "SSL",
        "ssl.ca.location": guarded.authority.file,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
    }
    Confluent().write(guarded.server.address, "by-certificate", MESSAGES, **settings)
    context = guarded.context
    context.load_cert_chain(certificate, key)
    with httpx.Client(verify=context) as client:
        found = client.get(f"https://{guarded.server.http_address}/topics")
        assert "by-certificate" in found.json()["topics"]


def test_a_certificate_that_is_renewed_is_shown_without_a_restart(
    guarded: Guarded, eventually: Callable[..., None]
):
    def serial() -> int:
        host, port = guarded.server.host_and_port
        pem = ssl.get_server_certificate((host, port))
        return x509.load_pem_x509_certificate(pem.encode()).serial_number

    before = serial()
    guarded.authority.issue("server")
    eventually(lambda: serial() != before)
