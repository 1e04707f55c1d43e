"""What a consumer may ask for."""

from typing import Any

import msgspec
import pytest

from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.model.errors import InvalidName, InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.model.limits import RECEIVE_MESSAGES_MAX, VISIBILITY_MS_MAX


def request(group: str = "workers", consumer: str = "ann", **options: Any) -> ReceiveRequest:
    return ReceiveRequest(["jobs"], GroupId(group), consumer, **options)


def test_the_least_and_the_most_are_allowed():
    request().check()
    request(max_messages=1, max_bytes=1, visibility_ms=1).check()
    request("g" * 249, "c" * 249, max_messages=RECEIVE_MESSAGES_MAX).check()
    request(max_bytes=2**31, visibility_ms=VISIBILITY_MS_MAX).check()


@pytest.mark.parametrize(("group", "consumer"), [("", "a"), ("a", ""), ("a", "b" * 250)])
def test_a_group_and_a_consumer_have_names(group: str, consumer: str):
    with pytest.raises(InvalidName, match="1 to 249"):
        request(group, consumer).check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_messages", 0),
        ("max_messages", RECEIVE_MESSAGES_MAX + 1),
        ("max_bytes", 0),
        ("max_bytes", 2**31 + 1),
        ("visibility_ms", 0),
        ("visibility_ms", VISIBILITY_MS_MAX + 1),
    ],
)
def test_a_number_that_is_out_of_bounds_is_refused_by_name(name: str, value: int):
    with pytest.raises(InvalidRequest, match=f"{name} is {value}"):
        msgspec.structs.replace(request(), **{name: value}).check()
