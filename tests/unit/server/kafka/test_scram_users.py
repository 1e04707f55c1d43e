"""Passwords by Kafka's requests: all changes of a user, or none."""

import hashlib
from typing import Any

import msgspec
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster.metadata import AclsAdded
from goqueue.model.config import AuthConfig
from goqueue.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    Pattern,
    Permission,
    Principal,
    ResourceType,
    derive_credential,
)
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import entity_of
from goqueue.wire.messages import request_shape
from tests.unit.broker.brokers import CONFIG, play
from tests.unit.server.kafka.asking import access_of, ask

SHA_256, SHA_512 = 1, 2


def upsertion(name: str, mechanism: int = SHA_256, **fields: Any) -> dict[str, Any]:
    size = 32 if mechanism == SHA_256 else 64
    known = {"name": name, "mechanism": mechanism, "iterations": 4096, "salt": b"salt"}
    return {**known, "salted_password": bytes(size), **fields}


async def alter(broker: Broker, **fields: Any) -> dict[str, ErrorCode]:
    request = entity_of(request_shape(ApiKey.ALTER_USER_SCRAM_CREDENTIALS), fields)
    answer = await ask(
        broker,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        deletions=request.deletions,
        upsertions=request.upsertions,
    )
    return {each.user: each.error_code for each in answer.results}


async def test_what_is_wrong_with_a_user_does_not_touch_another(broker: Broker):
    codes = await alter(
        broker,
        deletions=[{"name": "nobody", "mechanism": SHA_256}, {"name": "both", "mechanism": 1}],
        upsertions=[
            upsertion("ann"),
            upsertion("ann", SHA_512),
            upsertion("few", iterations=100),
            upsertion("many", iterations=100_000),
            upsertion("short", salted_password=b"x"),
            upsertion("strange", 7),
            upsertion("both"),
            upsertion("half"),
            upsertion("half", 9),
            upsertion("a:b"),
        ],
    )
    assert codes == {
        "nobody": ErrorCode.resource_not_found,
        "both": ErrorCode.duplicate_resource,
        "ann": ErrorCode.none,
        "few": ErrorCode.unacceptable_credential,
        "many": ErrorCode.unacceptable_credential,
        "short": ErrorCode.unacceptable_credential,
        "strange": ErrorCode.unsupported_sasl_mechanism,
        "half": ErrorCode.unsupported_sasl_mechanism,
        "a:b": ErrorCode.invalid_request,
    }
    assert broker.metadata.security.users == ["ann"]


async def test_the_password_that_a_client_salted_is_known(broker: Broker):
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    await alter(broker, upsertions=[upsertion("ann", salted_password=salted)])
    known = broker.metadata.security.credentials("ann")["SCRAM-SHA-256"]
    assert known == derive_credential("SCRAM-SHA-256", "secret", b"salt", 4096)


async def test_users_are_described_once_and_all_of_them_if_none_is_named(broker: Broker):
    await alter(broker, upsertions=[upsertion("ann"), upsertion("ann", SHA_512), upsertion("bob")])
    answer = await ask(broker, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=None)
    found = {
        each.user: [info.mechanism for info in each.credential_infos] for each in answer.results
    }
    assert found == {"ann": [SHA_256, SHA_512], "bob": [SHA_256]}
    named = {"users": [{"name": "ann"}, {"name": "ann"}, {"name": "nobody"}]}
    request = entity_of(request_shape(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS), named)
    answer = await ask(broker, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=request.users)
    codes = {each.user: each.error_code for each in answer.results}
    assert codes == {"ann": ErrorCode.duplicate_resource, "nobody": ErrorCode.resource_not_found}


def test_who_may_alter_the_cluster_may_not_take_an_administrators_account():
    async def story(broker: Broker) -> None:
        await broker.users.put("root", "root", ("admin",))
        await broker.users.put("plain", "plain")
        allowed = Acl(
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            Pattern.LITERAL,
            "User:delegate",
            "*",
            Operation.ALTER,
            Permission.ALLOW,
        )
        await broker.change_security([AclsAdded((allowed,))])
        names = ("root", "operator", "plain", "new")
        fields = {"upsertions": [upsertion(name) for name in names]}
        request = entity_of(request_shape(ApiKey.ALTER_USER_SCRAM_CREDENTIALS), fields)
        for who, refused in (("delegate", {"root", "operator"}), ("root", set())):
            answer = await ask(
                broker,
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                access=access_of(broker, Principal(who)),
                deletions=request.deletions,
                upsertions=request.upsertions,
            )
            found = {each.user for each in answer.results if each.error_code}
            assert found == refused
            assert {each.error_code for each in answer.results} <= {
                ErrorCode.none,
                ErrorCode.cluster_authorization_failed,
            }

    auth = AuthConfig(enabled=True, super_users=["operator"])
    play(story, msgspec.structs.replace(CONFIG, auth=auth))
