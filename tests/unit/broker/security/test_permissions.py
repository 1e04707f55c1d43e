"""Permissions by what is committed, and without authentication."""

import msgspec

from goqueue.broker import Broker
from goqueue.cluster.metadata import AclsAdded
from goqueue.model.config import AuthConfig
from goqueue.security import Acl, Operation, Pattern, Permission, Principal, ResourceType
from tests.unit.broker.brokers import CONFIG, play

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


def test_permissions_follow_what_is_set() -> None:
    async def story(broker: Broker) -> None:
        def may_read(name: str) -> bool:
            return broker.permissions.allows(
                Principal(name), "127.0.0.1", Operation.READ, ResourceType.TOPIC, "orders"
            )

        assert not may_read("alice")
        assert may_read("ops")
        await broker.change_security([AclsAdded((ACL,))])
        assert may_read("alice")
        assert not may_read("bob")
        await broker.users.put("bob", None, ("consumer",))
        assert may_read("bob")

    play(story, AUTH)


def test_without_authentication_everybody_may_do_everything() -> None:
    async def story(broker: Broker) -> None:
        assert broker.permissions.is_admin(Principal("anybody"))
        assert broker.permissions.allows_cluster(Principal("anybody"), "127.0.0.1", Operation.ALTER)

    play(story)
