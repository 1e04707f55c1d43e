"""Levels of features: what clients are told, and what they may ask for."""

import itertools

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey

from goqueue.broker import Broker
from goqueue.cluster.metadata import FeatureLevel
from goqueue.model.machine import Decision
from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.messages import build
from tests.unit.server.kafka.asking import ask


async def finalized(broker: Broker) -> tuple[int, dict[str, int]]:
    answer = await ask(broker, ApiKey.API_VERSIONS)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return answer.finalized_features_epoch, levels


async def test_clients_are_told_the_level_that_the_nodes_agreed_on(broker: Broker):
    epoch, before = await finalized(broker)
    record = FeatureLevel("transaction.version", 1)
    await broker.controller.host.submit(lambda _: Decision((record,), None))
    later, after = await finalized(broker)
    assert before["transaction.version"] == 2
    assert after == before | {"transaction.version": 1}
    assert later > epoch >= 0


UPDATES = [
    ({"metadata.version": 25, "group.version": 1}, ErrorCode.none),
    ({"metadata.version": 25, "group.version": 2}, ErrorCode.feature_update_failed),
    ({"transaction.version": 1}, ErrorCode.feature_update_failed),
    ({"unheard.of": 1}, ErrorCode.feature_update_failed),
    ({}, ErrorCode.invalid_request),
]


async def test_only_the_level_in_use_can_be_asked_for(broker: Broker):
    versions = range(VERSIONS[ApiKey.UPDATE_FEATURES].max + 1)
    for version, (updates, code) in itertools.product(versions, UPDATES):
        asked = tuple(
            build(FeatureUpdateKey, feature=name, max_version_level=level)
            for name, level in updates.items()
        )
        answer = await ask(broker, ApiKey.UPDATE_FEATURES, version, feature_updates=asked)
        assert answer.error_code is code
        assert bool(answer.error_message) is (code is not ErrorCode.none)
