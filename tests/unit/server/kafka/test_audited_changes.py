"""What the audit log says about changes over Kafka's protocol."""

import dataclasses
from types import SimpleNamespace

from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.security import Operation
from goqueue.server.kafka.audited_changes import CHANGES, Change, changes_of
from goqueue.server.kafka.demands import DEMANDS
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import entity_of
from goqueue.wire.messages import request_shape
from tests.unit.broker.brokers import play
from tests.unit.server.kafka.asking import ask
from tests.unit.server.kafka.walk import requests

CHANGING = {Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS}
# They demand such an operation and are data, or create what is missing on their way.
DATA = {ApiKey.PRODUCE, ApiKey.METADATA}


def test_every_api_that_changes_more_than_data_is_on_record() -> None:
    changing = {
        api
        for api, demands in DEMANDS.items()
        if any(each.operation in CHANGING for each in demands)
    }
    assert changing - DATA <= set(CHANGES)


def test_each_change_names_its_thing_and_what_came_of_it() -> None:
    found: dict[ApiKey, list[Change]] = {}

    async def story(broker: Broker) -> None:
        topic = await broker.create_topic("t", partitions=1)
        for api, several in requests(topic.topic_id).items():
            if api not in CHANGES:
                continue
            for fields in several:
                request = entity_of(request_shape(api), fields)
                names = [each.name for each in dataclasses.fields(request)]
                shallow = {name: getattr(request, name) for name in names}
                response = await ask(broker, api, **shallow)
                found.setdefault(api, []).extend(changes_of(api, request, response))

    play(story)
    lacking = set(CHANGES) - set(found) - {ApiKey.ALTER_CLIENT_QUOTAS}
    assert not lacking
    assert all(each for api, each in found.items() if api is not ApiKey.ALTER_REPLICA_LOG_DIRS)
    assert found[ApiKey.CREATE_ACLS][0].details == "allow User:eve all literal from *"
    (user, *_) = found[ApiKey.ALTER_USER_SCRAM_CREDENTIALS]
    assert user.resource.startswith("user:")
    assert "SCRAM-SHA" in user.details
    assert "salt" not in str(found)


def test_refusals_are_left_out_and_so_are_validations() -> None:
    results = [
        SimpleNamespace(name="t", error_code=ErrorCode.topic_authorization_failed),
        SimpleNamespace(name="u", error_code=ErrorCode.none),
    ]
    request, response = SimpleNamespace(validate_only=False), SimpleNamespace(responses=results)
    changes = list(changes_of(ApiKey.DELETE_TOPICS, request, response))
    assert [(each.resource, each.result) for each in changes] == [("topic:u", "ok")]
    request.validate_only = True
    assert not list(changes_of(ApiKey.DELETE_TOPICS, request, response))
