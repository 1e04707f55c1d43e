"""What a client may do, and what it is told that it may."""

import pytest

from goqueue.broker import Broker
from goqueue.model.errors import (
    AccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)
from goqueue.security import CLUSTER_NAME, Operation, ResourceType
from goqueue.server.kafka.access import Access
from tests.unit.server.kafka.asking import access_of
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
