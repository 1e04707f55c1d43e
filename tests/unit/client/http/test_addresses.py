"""Several nodes of a cluster for one client: when one does not answer, the next is asked."""

import httpx
import pytest

from goqueue.client import errors
from goqueue.client.http.addresses import Addresses
from goqueue.client.http.client import Client

A, B = "http://a:1", "http://b:2"
GONE = errors.ServerUnreachable("gone")


def test_one_address_stays():
    addresses = Addresses(f"{A}/")
    addresses.note_failure(A, GONE)
    assert addresses.current == A


def test_of_several_calls_that_fail_together_one_changes_the_address():
    addresses = Addresses(f"{A}, {B}/")
    assert addresses.current == A
    addresses.note_failure(A, GONE)
    addresses.note_failure(A, GONE)
    assert addresses.current == B
    addresses.note_failure(B, errors.NoAnswer("silent"))
    assert addresses.current == A


def test_who_answers_is_asked_again_whatever_it_says():
    addresses = Addresses(f"{A},{B}")
    addresses.note_failure(A, errors.BadAnswer("what?"))
    assert addresses.current == A


def test_a_client_goes_on_at_the_next_node(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("goqueue.client.http.client.time.sleep", lambda _seconds: None)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if request.url.host == "a":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"version": "1", "compiled": []})

    with Client(f"{A},{B}", transport=httpx.MockTransport(answer)) as client:
        client.version()
        client.version()
        assert client.base_url == B
    assert asked == [f"{A}/version", f"{B}/version", f"{B}/version"]
