"""Clients that nobody here wrote, as users who may do some things and not others."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from goqueue.model.config import AuthConfig, GroupsConfig
from tests.conformance.clients import WAIT_S, Confluent, Message
from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server

MESSAGES = [Message(b"k", b"%d" % n) for n in range(5)]
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def rdkafka(user: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": user,
        "log_level": 0,
    }


def python(user: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": user,
    }


class Guarded:
    """A server, its administrator, and a name that no other test has."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.admin = AdminClient({**server.bootstrap, **rdkafka("root")})
        self.name = f"n-{uuid.uuid4().hex[:8]}"

    def add_user(self, name: str) -> str:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(name, info, name.encode())
        for done in self.admin.alter_user_scram_credentials([change]).values():
            done.result(WAIT_S)
        return name

    def add_topic(self, name: str) -> str:
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_S)
        Confluent().write(self.server.address, name, MESSAGES, **rdkafka("root"))
        return name

    def allow(
        self,
        user: str,
        kind: ResourceType,
        name: str,
        operation: AclOperation,
        pattern: ResourcePatternType = LITERAL,
        permission: AclPermissionType = ALLOW,
    ) -> AclBinding:
        acl = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)
        for done in self.admin.create_acls([acl]).values():
            done.result(WAIT_S)
        return acl

    def consumer(self, user: str, group: str) -> Any:
        settings = {"group.id": group, "auto.offset.reset": "earliest"}
        return confluent_kafka.Consumer({**self.server.bootstrap, **rdkafka(user), **settings})

    def producer(self, user: str, **settings: Any) -> Any:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        return confluent_kafka.Producer({**self.server.bootstrap, **rdkafka(user), **names})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("permissions")
    password = directory / "password"
    password.write_text("root")
    config = msgspec.structs.replace(
        free_port_config(directory / "data"),
        groups=GroupsConfig(initial_rebalance_delay_ms=0),
        auth=AuthConfig(enabled=True, init_admin="root", init_admin_password_file=str(password)),
    )
    server = Server(config).start()
    yield server
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def guarded(server: Server) -> Guarded:
    return Guarded(server)


def consume(consumer: Any, topic: str) -> list[bytes] | KafkaError:
    """What is read, or the error that comes instead."""
    consumer.subscribe([topic])
    read: list[bytes] = []
    for _ in range(200):
        for message in consumer.consume(10, 0.1):
            if message.error() is not None:
                return message.error()
            read.append(message.value())
        if len(read) >= len(MESSAGES):
            break
    return read


def delivery_error(producer: Any, topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_S)
    return errors[0]


def test_a_consumer_reads_and_cannot_write(guarded: Guarded):
    topic, user = guarded.add_topic(guarded.name), guarded.add_user(f"c-{guarded.name}")
    guarded.allow(user, TOPIC, topic, READ)
    consumer = guarded.consumer(user, f"{topic}-group")
    found = consume(consumer, topic)
    assert isinstance(found, KafkaError)
    assert found.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    guarded.allow(user, GROUP, f"{topic}-", READ, PREFIXED)
    consumer = guarded.consumer(user, f"{topic}-group")
    assert consume(consumer, topic) == [each.value for each in MESSAGES]
    consumer.commit(asynchronous=False)
    assert list(consumer.list_topics(timeout=WAIT_S).topics) == [topic]
    consumer.close()
    error = delivery_error(guarded.producer(user), topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_producer_writes_idempotently_and_in_transactions_and_cannot_read(guarded: Guarded):
    topic, user = guarded.add_topic(guarded.name), guarded.add_user(f"p-{guarded.name}")
    guarded.allow(user, TOPIC, topic, WRITE)
    assert delivery_error(guarded.producer(user), topic) is None
    assert delivery_error(guarded.producer(user, enable_idempotence=True), topic) is None
    producer = guarded.producer(user, transactional_id=f"{topic}-tx")
    with pytest.raises(KafkaException, match="Transactional Id authorization failed"):
        producer.init_transactions(WAIT_S)
    guarded.allow(user, TRANSACTIONAL_ID, topic, WRITE, PREFIXED)
    producer = guarded.producer(user, transactional_id=f"{topic}-tx")
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction")
    producer.commit_transaction(WAIT_S)
    guarded.allow(user, GROUP, topic, READ)
    consumer = guarded.consumer(user, topic)
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = next(each for _ in range(100) for each in consumer.consume(1, 0.1))
    assert message.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_a_denial_goes_before_what_allows(guarded: Guarded):
    topic, user = guarded.add_topic(guarded.name), guarded.add_user(f"d-{guarded.name}")
    guarded.allow(user, TOPIC, topic[:4], WRITE, PREFIXED)
    assert delivery_error(guarded.producer(user), topic) is None
    denial = guarded.allow("*", TOPIC, topic, WRITE, permission=DENY)
    error = delivery_error(guarded.producer(user), topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    same = AclBindingFilter(TOPIC, topic, LITERAL, "User:*", "*", WRITE, AclPermissionType.ANY)
    (removed,) = (done.result(WAIT_S) for done in guarded.admin.delete_acls([same]).values())
    assert removed == [denial]
    assert delivery_error(guarded.producer(user), topic) is None


def test_what_is_missing_and_what_is_hidden_look_the_same(guarded: Guarded):
    hidden, user = guarded.add_topic(guarded.name), guarded.add_user(f"h-{guarded.name}")
    admin = AdminClient({**guarded.server.bootstrap, **rdkafka(user)})
    assert admin.list_topics(timeout=WAIT_S).topics == {}
    for name in (hidden, f"{hidden}-missing"):
        found = admin.list_topics(name, timeout=WAIT_S).topics[name]
        assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(f"{hidden}-new", 1, 1)])[f"{hidden}-new"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    guarded.allow(user, TOPIC, hidden, CREATE, PREFIXED)
    admin.create_topics([NewTopic(f"{hidden}-new", 1, 1)])[f"{hidden}-new"].result(WAIT_S)


def test_acls_are_listed_by_filters_and_strangers_may_not(guarded: Guarded):
    user, name = guarded.add_user(f"a-{guarded.name}"), guarded.name
    acls = [
        guarded.allow(user, TOPIC, name, READ),
        guarded.allow(user, TOPIC, name[:5], WRITE, PREFIXED),
        guarded.allow(user, GROUP, name, READ),
    ]

    def find(kind: ResourceType, pattern: ResourcePatternType, what: str | None) -> list[Any]:
        wanted = AclBindingFilter(
            kind, what, pattern, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
        )
        return sorted(guarded.admin.describe_acls(wanted).result(WAIT_S))

    assert find(ResourceType.ANY, ResourcePatternType.ANY, None) == sorted(acls)
    assert find(TOPIC, ResourcePatternType.MATCH, name) == sorted(acls[:2])
    assert find(TOPIC, LITERAL, name) == acls[:1]
    stranger = AdminClient({**guarded.server.bootstrap, **rdkafka(user)})
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert stranger.describe_acls(everything).result(WAIT_S) == []  # all that librdkafka tells
    for work in (
        *stranger.create_acls([acls[0]]).values(),
        *stranger.delete_acls([everything]).values(),
        *stranger.alter_user_scram_credentials(
            [UserScramCredentialDeletion("root", ScramMechanism.SCRAM_SHA_256)]
        ).values(),
    ):
        with pytest.raises(KafkaException) as refused:
            work.result(WAIT_S)
        assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_passwords_are_set_shown_and_removed(guarded: Guarded):
    user = guarded.add_user(f"s-{guarded.name}")
    found = guarded.admin.describe_user_scram_credentials([user])[user].result(WAIT_S)
    (info,) = found.scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    guarded.admin.alter_user_scram_credentials([change])[user].result(WAIT_S)
    with pytest.raises(KafkaException) as refused:
        guarded.admin.describe_user_scram_credentials([user])[user].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_the_python_clients_are_told_so_too(guarded: Guarded):
    topic, user = guarded.add_topic(guarded.name), guarded.add_user(f"y-{guarded.name}")
    address = guarded.server.address
    guarded.allow(user, TOPIC, topic, READ)
    guarded.allow(user, GROUP, topic, READ)
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        **python(user),
    )
    assert [next(consumer).value for _ in MESSAGES] == [each.value for each in MESSAGES]
    consumer.close()
    settings = {"enable_idempotence": False, **python(user)}
    producer = kafka.KafkaProducer(bootstrap_servers=address, **settings)
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        producer.send(topic, b"x").get(WAIT_S)
    producer.close()

    async def write(idempotent: bool) -> None:
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=idempotent, **python(user)
        )
        await client.start()
        try:
            await client.send_and_wait(topic, b"x")
        finally:
            await client.stop()

    with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
        asyncio.run(write(False))
    guarded.allow(user, TOPIC, topic, WRITE)
    asyncio.run(write(True))
