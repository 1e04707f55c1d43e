"""Calls as data, and the methods that are made of them."""

import asyncio
import inspect
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.client.http.calls import queues
from goqueue.client.http.calls.call import Call, async_verb, change, get, path_of, post, verb


class Recorder:
    """Answers a call with itself."""

    def send(self, call: Call[Any]) -> Any:
        return call

    ack = verb(queues.ack)


class AsyncRecorder:
    async def send(self, call: Call[Any]) -> Any:
        return call

    ack = async_verb(queues.ack)


def test_a_verb_sends_the_call_of_its_function():
    call: Any = Recorder().ack("a", "b")
    assert call.path == "/messages/ack"
    assert call.body == b'{"receipt_handles":["a","b"]}'
    waited: Any = asyncio.run(AsyncRecorder().ack("a", "b"))
    assert waited.body == call.body


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_methods_show_the_text_and_parameters_of_their_calls(client: Any):
    assert client.ack.__doc__ == queues.ack.__doc__
    assert client.receive.__name__ == "receive"
    assert str(inspect.signature(client.peek)).startswith("(self, /, topic: str, group: str, count")
    assert inspect.iscoroutinefunction(client.ack) is (client is AsyncClient)


def test_what_is_none_is_left_out():
    assert get("/x", dict, {"a": 1, "b": None}).query == {"a": "1"}
    assert post("/x", dict, {"a": 1, "b": None}).body == b'{"a":1}'
    assert change("DELETE", "/x", dict).body is None


def test_a_setting_that_is_none_is_sent_for_the_server_to_refuse():
    assert (
        queues.change_queue_settings("g", {"max_failures": None}).body == b'{"max_failures":null}'
    )


def test_names_in_paths_are_quoted():
    assert path_of("topics", "a/b c", 3) == "/topics/a%2Fb%20c/3"
