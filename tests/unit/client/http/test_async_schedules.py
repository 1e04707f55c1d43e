"""The client has a verb for each request about schedules."""

import inspect

from goqueue.client import AsyncClient, Client
from goqueue.client.http.calls import schedules


def test_each_request_has_a_verb_in_both_clients():
    made = [
        name
        for name, each in vars(schedules).items()
        if inspect.isfunction(each)
        and each.__module__ == schedules.__name__
        and not name.startswith("_")
    ]
    assert len(made) == 11
    for name in made:
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name))
        assert inspect.isfunction(getattr(Client, name))
