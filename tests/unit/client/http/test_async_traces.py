"""The client has a verb for each request about journeys."""

import inspect

import pytest

from goqueue.client import AsyncClient, Client


@pytest.mark.parametrize(
    "name", ["journey", "trace", "recent_traces", "search_traces", "trace_stats"]
)
def test_each_request_has_a_verb_in_both_clients(name: str):
    assert inspect.iscoroutinefunction(getattr(AsyncClient, name))
    assert inspect.isfunction(getattr(Client, name))
