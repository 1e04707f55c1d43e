"""Several partitions read together, and followed."""

import itertools
from collections.abc import Iterator

import httpx
import pytest

from goqueue.api.messages import MessagePage, TopicMessages
from goqueue.client import AsyncClient, errors
from goqueue.client.http.reading import PartitionReading, Position, Reading, partitions_of
from tests.unit.client.http.fake_server import (
    TOPIC,
    FakeServer,
    client_of,
    message,
    page,
    refused,
    said,
)


def test_partitions_are_merged_by_time():
    def answer(request: httpx.Request) -> httpx.Response:
        match request.url.path:
            case "/topics/t":
                return said(200, TOPIC)
            case "/topics/t/partitions/0/messages":
                return page(0, 1, time=1002)
            case _:
                return page(*range(5, 10), partition=1, time=996)

    found = list(client_of(FakeServer(answer)).read("t"))
    assert [(each.timestamp, each.partition) for each in found] == [
        (1001, 1),
        (1002, 0),
        (1002, 1),
        (1003, 0),
        (1003, 1),
        (1004, 1),
        (1005, 1),
    ]


def test_reading_goes_on_from_page_to_page_and_ends_where_the_log_ended():
    server = FakeServer(
        said(200, TOPIC),
        page(0, 1, at_end=False, high_watermark=4),
        page(2, 3, at_end=False, high_watermark=100),
    )
    found = list(client_of(server).read("t", partition=0, offset=0))
    assert [each.offset for each in found] == [0, 1, 2, 3]
    assert [request.url.params.get("offset") for request in server.requests] == [None, "0", "2"]


def test_a_negative_offset_counts_from_the_end():
    server = FakeServer(said(200, TOPIC), page(8, 9, partition=1))
    list(client_of(server).read("t", partition=1, offset=-2))
    assert server.requests[1].url.params["offset"] == "8"


def test_a_limit_ends_reading_and_makes_pages_small():
    server = FakeServer(said(200, TOPIC), page(0, 1, 2, at_end=False, high_watermark=50))
    assert len(list(client_of(server).read("t", partition=0, limit=2))) == 2
    assert server.requests[1].url.params["limit"] == "2"


def test_a_time_is_asked_for_once_and_offsets_after_that():
    server = FakeServer(
        said(200, TOPIC), page(3, at_end=False, high_watermark=5), page(4, high_watermark=5)
    )
    list(client_of(server).read("t", partition=0, from_time=1000, to_time=2000))
    first, second = (dict(request.url.params) for request in server.requests[1:])
    assert (first.get("offset"), first["from_time"], first["to_time"]) == (None, "1000", "2000")
    assert (second["offset"], second.get("from_time"), second["to_time"]) == ("4", None, "2000")


def merged_page(
    *places: tuple[int, int], cursor: str, problems: list[str] | None = None
) -> httpx.Response:
    """By partition and offset."""
    messages = [message(offset, partition=index) for index, offset in places]
    return said(200, TopicMessages(messages, cursor, at_end=True, problems=problems or []))


def follow_script() -> Iterator[httpx.Response]:
    yield merged_page((0, 0), (1, 5), cursor="first")
    yield merged_page(cursor="second")
    yield merged_page((1, 6), cursor="third", problems=["partition 0: 3 are gone"])


FOLLOWED = [(0, 0), (1, 5), (1, 6)]


def test_a_topic_is_followed_with_one_request_at_a_time(caplog: pytest.LogCaptureFixture):
    server = FakeServer(*follow_script())
    messages = client_of(server).follow("t", offset=-3)
    assert [(m.partition, m.offset) for m in itertools.islice(messages, 3)] == FOLLOWED
    asked = [dict(request.url.params) for request in server.requests]
    assert {request.url.path for request in server.requests} == {"/topics/t/messages"}
    assert [each.get("start") for each in asked] == ["-3", None, None]
    assert [each.get("cursor") for each in asked] == [None, "first", "second"]
    assert [each.get("wait") for each in asked] == [None, "10000", "10000"]
    assert "topic t were skipped: partition 0: 3 are gone" in caplog.text


async def test_the_asynchronous_client_follows_too():
    server = FakeServer(*follow_script())
    async with AsyncClient("http://queue.test", transport=server.transport) as client:
        messages = client.follow("t")
        assert [(m.partition, m.offset) for m in [await anext(messages) for _ in "abc"]] == FOLLOWED
        await messages.aclose()


def test_following_a_partition_waits_when_nothing_moves():
    script = (said(200, TOPIC), page(0, 1), page(next_offset=2), page(2))
    server = FakeServer(*script)
    messages = client_of(server).follow("t", partition=0)
    assert [next(messages).offset for _ in range(3)] == [0, 1, 2]
    waits = [request.url.params.get("wait") for request in server.requests[1:]]
    assert waits == [None, None, "10000"]


async def test_following_ends_with_the_server_s_refusal():
    server = FakeServer(said(200, TOPIC), page(0), refused(404, "topic_not_found"))
    async with AsyncClient("http://queue.test", transport=server.transport) as client:
        messages = client.follow("t", partition=0)
        assert (await anext(messages)).offset == 0
        with pytest.raises(errors.TopicNotFound):
            await anext(messages)


# --- without a client -----------------------------------------------------------------------------


def fetched(*offsets: int, next_offset: int, at_end: bool = False, end: int = 100) -> MessagePage:
    messages = [message(each, time=1_000 + each) for each in offsets]
    return MessagePage(messages, next_offset, end, at_end)


@pytest.mark.parametrize(
    ("page", "is_finished"),
    [
        (fetched(0, 1, next_offset=2), False),
        (fetched(0, 1, next_offset=2, at_end=True), True),
        (fetched(0, 1, next_offset=2, end=2), True),
        (fetched(next_offset=0), True),  # it stands still: asking again would never end
        (fetched(next_offset=5), False),  # a gap
    ],
)
def test_a_partition_is_read_to_its_end(page: MessagePage, is_finished: bool):
    reading = PartitionReading("t", 0, 0)
    reading.take(page)
    assert reading.is_finished is is_finished


def test_a_partition_ends_where_it_ended_when_reading_began():
    reading = PartitionReading("t", 0, 0)
    reading.take(fetched(0, next_offset=1, end=2))
    reading.take(fetched(1, next_offset=2, end=50))
    assert reading.is_finished
    assert [each.offset for each in reading.drain()] == [0, 1]


def test_nothing_is_given_while_a_partition_has_nothing_to_compare():
    first, second = PartitionReading("t", 0, 0), PartitionReading("t", 1, 0)
    reading = Reading([first, second])
    first.take(fetched(0, 3, next_offset=4, at_end=True))
    assert (reading.missing(), list(reading.ready())) == ([second], [])
    second.take(fetched(2, next_offset=3))
    assert [each.timestamp for each in reading.ready()] == [1_000, 1_002]
    assert reading.missing() == [second]
    second.take(fetched(next_offset=3))
    assert [each.timestamp for each in reading.ready()] == [1_003]
    assert reading.is_finished


def test_a_limit_of_nothing_reads_nothing():
    reading = Reading([PartitionReading("t", 0, 0)], limit=0)
    assert reading.is_finished
    assert list(reading.ready()) == []


@pytest.mark.parametrize(
    ("start", "expected"), [(None, "earliest"), ("latest", "latest"), (7, 7), (-3, 7), (-99, 5)]
)
def test_a_position_is_an_offset_an_end_or_counts_back(start: Position | None, expected: Position):
    (reading,) = partitions_of(TOPIC, 1, start)
    assert reading.call().query["offset"] == str(expected)
