"""From an answer, or none, to a result or an error with a name."""

import httpx
import pytest

from goqueue.api.server import VersionBody
from goqueue.client import Client, errors
from goqueue.client.http import exchange
from tests.unit.client.http.fake_server import FakeServer, client_of, refused, said


def test_the_key_goes_along_and_a_proxy_is_not_used_for_loopback():
    server = FakeServer(said(200, VersionBody("1", [])))
    client_of(server, api_key="secret").version()
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert exchange.options("http://127.0.0.1:1", None)["trust_env"] is False
    assert exchange.options("http://queue.test", None)["trust_env"] is True


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
