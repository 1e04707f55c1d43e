"""The client against a scripted server: requests, results, errors, repetition."""

import asyncio
import itertools
from collections.abc import Iterator

import httpx
import msgspec
import pytest

import goqueue
from goqueue.api.messages import TopicMessages
from goqueue.api.server import HealthBody, VersionBody
from goqueue.api.topics import Offsets, TopicCreated, TopicDetail, TopicList, TopicSummary
from goqueue.client import AsyncClient, Client, Message, errors
from goqueue.client.http import exchange
from tests.unit.client.fake_server import FakeServer, message, page, refused, said

TOPIC = TopicDetail(
    name="t",
    topic_id="id",
    partitions=2,
    created_at=None,
    internal=False,
    settings={},
    total_messages=3,
    total_size_bytes=10,
    partition_offsets={0: Offsets(0, 1, 2), 1: Offsets(5, 9, 10)},
)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept."""
    found: list[float] = []
    monkeypatch.setattr("goqueue.client.http.client.time.sleep", found.append)
    return found


def client_of(server: FakeServer, **options: object) -> Client:
    return Client("http://queue.test", transport=server.transport, **options)  # type: ignore[arg-type]


# --- requests -------------------------------------------------------------------------------------


def test_a_topic_is_created_with_what_was_given():
    server = FakeServer(said(201, TopicCreated("t", "id", 2, {}, created=True)))
    made = client_of(server).create_topic("t", partitions=2, settings={"retention.ms": "5"})
    assert made.partitions == 2
    request = server.requests[0]
    assert (request.method, request.url.path) == ("POST", "/topics")
    assert msgspec.json.decode(request.content) == {
        "name": "t",
        "num_partitions": 2,
        "settings": {"retention.ms": "5"},
    }


def test_changed_settings_are_set_or_unset():
    server = FakeServer(said(200, {"topic": "t", "settings": {}}))
    client_of(server).change_settings("t", {"a": "1", "b": None})
    assert msgspec.json.decode(server.requests[0].content) == {"set": {"a": "1"}, "unset": ["b"]}


def test_a_name_is_quoted_in_the_path():
    server = FakeServer(refused(400, "invalid_name"))
    with pytest.raises(errors.BadRequest):
        client_of(server).topic("../a b")
    assert server.requests[0].url.raw_path == b"/topics/..%2Fa%20b"


def summary(name: str) -> TopicSummary:
    return TopicSummary(name, "id", 1, None, False, {}, None, None)


def test_all_pages_of_topics_are_read():
    first = TopicList(["a"], [summary("a")], next_after="a")
    second = TopicList(["b"], [summary("b")])
    server = FakeServer(said(200, first), said(200, second))
    assert [each.name for each in client_of(server).topics()] == ["a", "b"]
    assert server.requests[1].url.params["after"] == "a"


def test_the_key_goes_along_and_a_proxy_is_not_used_for_loopback():
    server = FakeServer(said(200, VersionBody("1", [])))
    client_of(server, api_key="secret").version()
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert exchange.options("http://127.0.0.1:1", None)["trust_env"] is False
    assert exchange.options("http://queue.test", None)["trust_env"] is True


def test_a_server_that_is_not_ready_says_why():
    server = FakeServer(said(503, HealthBody("fail", None, 0.0, "starting")))
    health = client_of(server).health()
    assert (health.is_ready, health.message) == (False, "starting")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "topic_not_found", errors.TopicNotFound),
        (404, "partition_not_found", errors.PartitionNotFound),
        (404, "no_such_path", errors.NotFound),
        (409, "topic_exists", errors.TopicExists),
        (400, "invalid_setting", errors.BadRequest),
        (416, "offset_out_of_range", errors.OffsetOutOfRange),
        (413, "message_too_large", errors.TooLarge),
        (403, "unauthorized", errors.Unauthorized),
        (500, "internal", errors.ServerFailed),
        (418, "a_code_of_tomorrow", errors.BadRequest),
    ],
)
def test_a_refusal_has_its_class_and_its_facts(status: int, code: str, kind: type[errors.Refused]):
    server = FakeServer(refused(status, code, "not so", earliest=3))
    with pytest.raises(kind) as caught:
        client_of(server).topic("t")
    error = caught.value
    assert (error.code, error.status, error.message) == (code, status, "not so")
    assert error.details == {"earliest": 3}


def test_an_answer_of_another_program_is_told_apart():
    for answer in (httpx.Response(200, text="<html>"), httpx.Response(502, text="proxy")):
        with pytest.raises(errors.BadAnswer):
            client_of(FakeServer(answer)).version()


def test_without_a_server_the_error_names_the_address():
    with (
        Client("http://127.0.0.1:1", retries=0) as client,
        pytest.raises(errors.ServerUnreachable, match=r"no GoQueue server at http://127.0.0.1:1"),
    ):
        client.version()


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://host:port"])
def test_what_is_no_address_is_said_to_be_none(url: str):
    with pytest.raises(errors.ServerUnreachable, match="not the address"):
        Client(url, retries=0).version()


# --- repetition -----------------------------------------------------------------------------------


def test_a_publish_whose_answer_was_lost_is_not_sent_again(waits: list[float]):
    server = FakeServer(httpx.ReadTimeout(""))
    with pytest.raises(errors.NoAnswer):
        client_of(server).publish("t", [Message("a")])
    assert len(server.requests) == 1


def test_a_publish_is_sent_again_when_the_server_asks_for_that(waits: list[float]):
    busy = refused(503, "overloaded")
    busy.headers["Retry-After"] = "1"
    server = FakeServer(busy, said(200, {"results": [{"partition": 0, "offset": 4}]}))
    assert client_of(server).publish("t", [Message("a")])[0].offset == 4
    assert waits == [1.0]


def test_a_read_is_repeated_when_its_answer_was_lost(waits: list[float]):
    server = FakeServer(httpx.ReadError("reset"), said(200, VersionBody("1", [])))
    assert client_of(server).version().version == "1"
    assert len(server.requests) == 2


def test_repetition_ends(waits: list[float]):
    server = FakeServer(httpx.ConnectError("refused"))
    with pytest.raises(errors.ServerUnreachable):
        client_of(server, retries=3).version()
    assert len(server.requests) == 4


def test_repetition_ends_with_the_time_out(waits: list[float]):
    busy = refused(503, "overloaded")
    busy.headers["Retry-After"] = "2"
    server = FakeServer(busy)
    with pytest.raises(errors.Overloaded):
        client_of(server, timeout=1.5).version()
    assert (len(server.requests), waits) == (1, [])


# --- connections ----------------------------------------------------------------------------------


class Held:
    """A server that answers `/version`, and holds long polls until it is told to go on."""

    def __init__(self) -> None:
        self.polling = asyncio.Event()
        self.go_on = asyncio.Event()
        self.transport = httpx.MockTransport(self._answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if "wait" not in request.url.params:
            return said(200, VersionBody("1", []))
        self.polling.set()
        await self.go_on.wait()
        return page(0)


async def test_a_long_poll_takes_no_connection_from_short_calls():
    server = Held()
    async with AsyncClient(
        "http://queue.test", transport=server.transport, connections_max=1, long_polls_max=1
    ) as client:
        poll = asyncio.create_task(client.fetch("t", 0, wait_ms=60_000))
        await server.polling.wait()
        assert (await client.version()).version == "1"
        server.go_on.set()
        assert [each.offset for each in (await poll).messages] == [0]


async def test_a_call_that_finds_no_free_connection_says_what_to_raise():
    server = Held()
    async with AsyncClient(
        "http://queue.test", transport=server.transport, long_polls_max=1, timeout=0.01
    ) as client:
        poll = asyncio.create_task(client.fetch("t", 0, wait_ms=60_000))
        await server.polling.wait()
        with pytest.raises(errors.NoFreeConnection, match="1 long polls under way; raise its long"):
            await client.fetch("t", 0, wait_ms=60_000)
        server.go_on.set()
        await poll


def test_the_synchronous_client_says_it_too():
    def answer(_: httpx.Request) -> httpx.Response:
        with pytest.raises(errors.NoFreeConnection, match="raise its connections_max"):
            client.health()
        return said(200, VersionBody("1", []))

    client = client_of(FakeServer(answer), connections_max=1, timeout=0.01)
    assert client.version().version == "1"


# --- publishing -----------------------------------------------------------------------------------

PROBLEM = {"code": "message_too_large", "message": "too large"}


def test_publish_raises_when_some_failed():
    server = FakeServer(said(207, {"results": [{"partition": 0, "offset": 1}, {"error": PROBLEM}]}))
    with pytest.raises(errors.PublishIncomplete, match="1 of 2") as caught:
        client_of(server).publish("t", [Message("a"), Message("b")])
    assert [each.offset for each in caught.value.results] == [1, None]


def test_publish_raises_the_refusal_when_all_failed():
    server = FakeServer(refused(413, "message_too_large", results=[{"error": PROBLEM}]))
    with pytest.raises(errors.TooLarge):
        client_of(server).publish("t", [Message("a")])


def test_publish_each_gives_a_result_for_each_message():
    server = FakeServer(refused(413, "message_too_large", results=[{"error": PROBLEM}]))
    (result,) = client_of(server).publish_each("t", [Message("a")])
    assert result.error is not None
    assert result.error.code == "message_too_large"


def test_publish_each_raises_when_the_topic_takes_nothing():
    with pytest.raises(errors.TopicNotFound):
        client_of(FakeServer(refused(404, "topic_not_found"))).publish_each("t", [Message("a")])


# --- reading --------------------------------------------------------------------------------------


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


async def test_the_asynchronous_client_has_the_same_verbs():
    def verbs(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert verbs(AsyncClient) == verbs(Client)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "receipt_expired", goqueue.ReceiptExpired),
        (409, "receipt_in_transaction", goqueue.ReceiptInTransaction),
        (404, "receipt_unknown", goqueue.ReceiptUnknown),
        (400, "receipt_malformed", goqueue.ReceiptMalformed),
    ],
)
def test_a_refused_receipt_has_a_class_of_its_own(
    status: int, code: str, kind: type[errors.Refused]
):
    with pytest.raises(kind):
        client_of(FakeServer(refused(status, code))).ack("orders:0:0:1:1.g")
    assert issubclass(kind, errors.refusal("", status))


def test_everything_public_comes_from_the_package():
    for name in goqueue.__all__:
        assert getattr(goqueue, name) is not None
    exported = {name for name in vars(errors) if name[0].isupper() and not name.isupper()}
    known = {each for each in exported if getattr(errors, each).__module__ == errors.__name__}
    assert known <= set(goqueue.__all__)


def test_a_delivery_has_its_receipt_under_both_names():
    delivery = goqueue.Delivery("t", 0, 0, 0, None, b"v", receipt="r")
    assert delivery.receipt_handle == delivery.receipt == "r"
    server = FakeServer(said(200, {"settled": 1, "refused": 0, "results": [{"action": "acked"}]}))
    client_of(server).ack(delivery, delivery.receipt_handle)
    assert msgspec.json.decode(server.requests[0].content) == {"receipt_handles": ["r", "r"]}
