"""What a client may do, and what it is told that it may."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster.metadata import AclsAdded, AclsRemoved
from goqueue.model.errors import (
    AccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)
from goqueue.security import CLUSTER_NAME, Acl, Operation, Pattern, Permission, ResourceType
from goqueue.server.kafka.access import Access
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import duration
from tests.unit.server.kafka.asking import access_of, ask
from tests.unit.server.kafka.walk import Recorder


async def test_without_permissions_to_enforce_everything_is_allowed(broker: Broker):
    access = access_of(broker)
    access.demand_topic(Operation.WRITE, "t")
    access.demand_cluster(Operation.ALTER)
    access.demand_creation("t")
    assert access.allows_any_topic(Operation.WRITE)
    assert access.operations(ResourceType.TOPIC, "t") == 3576


async def test_a_refusal_is_that_of_the_resource(guarded: Broker):
    access: Access = Recorder(guarded, "stranger")
    with pytest.raises(TopicAccessDenied, match="User:stranger lacks WRITE on topic 't'"):
        access.demand_topic(Operation.WRITE, "t")
    with pytest.raises(TopicAccessDenied, match="CREATE"):
        access.demand_creation("t")
    with pytest.raises(GroupAccessDenied):
        access.demand_group(Operation.READ, "g")
    with pytest.raises(TransactionalIdAccessDenied):
        access.demand_transactional_id(Operation.WRITE, "x")
    with pytest.raises(AccessDenied, match=CLUSTER_NAME):
        access.demand_cluster(Operation.ALTER)
    assert not access.allows_any_topic(Operation.WRITE)


async def test_a_client_is_told_what_it_may_do(guarded: Broker):
    reader = Recorder(guarded, "reader")
    told = reader.operations(ResourceType.TOPIC, "t")
    allowed = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    assert told == sum(1 << each for each in allowed)
    assert reader.operations(ResourceType.TOPIC, "t", asked=False) == -(2**31)
    assert Recorder(guarded, "stranger").operations(ResourceType.CLUSTER, CLUSTER_NAME) == 0


def allow(user: str, operation: Operation, kind: ResourceType, name: str) -> Acl:
    return Acl(kind, name, Pattern.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)


async def test_a_pattern_matches_what_its_member_may_see(guarded: Broker):
    """Of two members each gets its own; who may see less than before gives it up."""
    for name in ("a", "b", "hidden"):
        await guarded.create_topic(name, partitions=1)
    ids = {guarded.topic(name).topic_id: name for name in ("a", "b", "hidden")}
    acls = {
        (user, topic): allow(user, Operation.READ, ResourceType.TOPIC, topic)
        for user, topic in (("ann", "a"), ("bob", "a"), ("bob", "b"))
    }
    groups = tuple(allow(user, Operation.ALL, ResourceType.GROUP, "g") for user in ("ann", "bob"))
    await guarded.change_security([AclsAdded((*acls.values(), *groups))])

    async def beat(user: str, epoch: int) -> tuple[int, set[str] | None]:
        joins = epoch == 0
        answer = await ask(
            guarded,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            access=Recorder(guarded, user),
            group_id="g",
            member_id=f"m-{user}",
            member_epoch=epoch,
            rebalance_timeout=duration(60_000 if joins else -1),
            subscribed_topic_names=None,
            subscribed_topic_regex=".*" if joins else None,
            topic_partitions=() if joins else None,
        )
        assert answer.error_code is ErrorCode.none, answer
        if answer.assignment is None:
            return answer.member_epoch, None
        return answer.member_epoch, {
            ids[each.topic_id] for each in answer.assignment.topic_partitions
        }

    epoch, assigned = await beat("ann", 0)
    assert assigned == {"a"}
    (described,) = (
        await ask(
            guarded,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            access=Recorder(guarded, "ann"),
            group_ids=("g",),
        )
    ).groups
    assert described.error_code is ErrorCode.none, described  # else it tells of a hidden topic
    await guarded.change_security([AclsRemoved((acls["ann", "a"],))])
    for _ in range(1_000):
        await asyncio.sleep(0)  # the groups are told in the background
        epoch, assigned = await beat("ann", epoch)
        if assigned is not None:
            break
    assert assigned == set()
    _, assigned = await beat("bob", 0)
    assert assigned == {"b"}  # ann has not said yet that it gave the other one up
