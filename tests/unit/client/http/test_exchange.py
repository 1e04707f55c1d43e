"""From an answer, or none, to a result or an error with a name."""

import ssl
from typing import Any

import httpx
import pytest

from goqueue.api.server import VersionBody
from goqueue.client import Client, errors
from goqueue.client.http import exchange
from goqueue.client.http.calls.call import Call
from tests.unit.client.http.fake_server import FakeServer, client_of, refused, said


def test_the_key_goes_along_and_a_proxy_is_not_used_for_loopback():
    server = FakeServer(said(200, VersionBody("1", [])))
    client_of(server, api_key="secret").version()
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert exchange.options("http://127.0.0.1:1", {})["trust_env"] is False
    assert exchange.options("http://queue.test", {})["trust_env"] is True


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
        (401, "authentication_failed", errors.Unauthorized),
        (403, "access_denied", errors.Forbidden),
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


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.9", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_alone(url: str, expected: bool):
    assert exchange.is_loopback(url) is expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("3", 3.0), ("0", 0.0), ("soon", None), ("-1", None)]
)
def test_a_server_says_when_to_come_again(text: str, seconds: float | None):
    answer = refused(503, "overloaded")
    answer.headers["Retry-After"] = text
    with pytest.raises(errors.Overloaded) as caught:
        client_of(FakeServer(answer), retries=0).version()
    assert caught.value.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("url", "mode"),
    [("https://queue.test", ssl.CERT_REQUIRED), ("http://queue.test", ssl.CERT_NONE)],
)
def test_certificates_are_read_where_they_are_needed(url: str, mode: ssl.VerifyMode):
    assert exchange.options(url, {})["verify"].verify_mode is mode


def test_a_request_says_no_more_than_its_call():
    call: Call[Any] = Call(method="GET", path="/x", result=dict)
    assert exchange.request_of(call, "http://h", 5.0) == {
        "method": "GET",
        "url": "http://h/x",
        "timeout": 5.0,
    }
    call = Call(method="POST", path="/x", result=dict, query={"a": "1"}, body=b"")
    assert exchange.request_of(call, "http://h", 5.0) == {
        "method": "POST",
        "url": "http://h/x",
        "timeout": 5.0,
        "params": {"a": "1"},
        "content": b"",
        "headers": {"Content-Type": "application/json"},
    }


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (httpx.ConnectTimeout(""), errors.ServerUnreachable, "within 5 s: is the address right"),
        (httpx.ConnectError("refused"), errors.ServerUnreachable, r"\(refused\)"),
        (httpx.ReadTimeout(""), errors.NoAnswer, "took the request and did not answer within 5 s"),
        (httpx.InvalidURL("?"), errors.ServerUnreachable, "not the address"),
        (httpx.ReadError(""), errors.NoAnswer, "broke: ReadError"),
    ],
)
def test_each_way_to_fail_has_a_name(error: Exception, kind: type[Exception], words: str):
    with pytest.raises(kind, match=words), exchange.named_errors("http://queue.test", 5.0):
        raise error
