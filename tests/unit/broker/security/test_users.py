"""Users and keys that outlive the process, and the first of all."""

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.cluster.metadata import AclsAdded
from goqueue.model.config import AuthConfig
from goqueue.model.errors import ApiKeyNotFound, InvalidRequest, UserNotFound
from goqueue.runtime import Environment
from goqueue.security import Acl, Operation, Pattern, Permission, Principal, ResourceType
from goqueue.testing.sim import World
from tests.unit.broker.brokers import CONFIG, play, running

AUTH = msgspec.structs.replace(CONFIG, auth=AuthConfig(enabled=True, super_users=["ops"]))
ACL = Acl(
    ResourceType.TOPIC,
    "orders",
    Pattern.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)


def test_all_of_it_survives_a_restart() -> None:
    async def first(environment: Environment) -> None:
        async with running(environment, AUTH) as broker:
            await broker.users.put("alice", "one", ("consumer",))
            await broker.users.put("bob", "two", ("admin",))
            await broker.users.remove("bob")
            await broker.change_security([AclsAdded((ACL,))])
            await broker.api_keys.create("ci", "builder", (), None)

    async def second(environment: Environment) -> None:
        async with running(environment, AUTH) as broker:
            assert [each.name for each in broker.users.describe_all()] == ["alice"]
            assert broker.users.get("alice").roles == ("consumer",)
            assert await broker.logins.check_password("alice", "one") == Principal("alice")
            assert list(broker.metadata.security.acls) == [ACL]
            assert [each.name for each in broker.api_keys.describe_all()] == ["ci"]

    with World(0) as world:
        world.run(first(world.environment("a")))
        world.run(second(world.environment("a")))


def test_the_first_administrator_is_made_once() -> None:
    async def story(broker: Broker) -> None:
        made_up = await broker.users.ensure_admin("root", None)
        assert made_up is not None
        assert len(made_up) >= 24
        assert await broker.logins.check_password("root", made_up) == Principal("root")
        assert broker.permissions.is_admin(Principal("root"))
        assert await broker.users.ensure_admin("root", None) is None
        assert await broker.users.ensure_admin("other", "given") is None
        assert [each.name for each in broker.users.describe_all()] == ["root"]

    play(story, AUTH)


def test_bad_input_changes_nothing() -> None:
    async def story(broker: Broker) -> None:
        for name in ("", "a:b", "*", "x" * 300, "a\nb", " a"):
            with pytest.raises(InvalidRequest):
                await broker.users.put(name, "one")
        with pytest.raises(InvalidRequest, match="no role"):
            await broker.users.put("alice", "one", ("root",))
        with pytest.raises(InvalidRequest, match="empty"):
            await broker.users.put("alice", "")
        with pytest.raises(UserNotFound):
            await broker.users.remove("alice")
        with pytest.raises(ApiKeyNotFound):
            await broker.api_keys.remove("key_0")
        assert broker.users.describe_all() == []

    play(story, AUTH)
