"""Requests about schedules."""

import msgspec

from goqueue.api.schedules import RunList, ScheduledMessage, ScheduleInput, ScheduleList
from goqueue.client.http.calls import schedules
from tests.unit.client.http.fake_server import FakeServer, client_of, said


def test_names_may_be_anything_and_defaults_are_left_out():
    given = ScheduleInput("t", ScheduledMessage({"a": 1}), cron="@daily")
    call = schedules.create_schedule("a", given)
    assert msgspec.json.decode(call.body or b"") == {
        "name": "a",
        "paused": False,
        "topic": "t",
        "message": {"value": {"a": 1}},
        "cron": "@daily",
    }
    assert schedules.schedule("a b").path == "/schedules/a%20b"
    assert not schedules.run_schedule("a").is_repeatable


def test_what_has_a_version_is_not_sent_twice():
    given = ScheduleInput("t", ScheduledMessage(""), every="1m")
    assert schedules.replace_schedule("a", given).is_repeatable
    assert not schedules.replace_schedule(
        "a", msgspec.structs.replace(given, version=1)
    ).is_repeatable


def test_pages_and_runs():
    server = FakeServer(said(200, ScheduleList([], 0, None)), said(200, RunList("a", [])))
    client = client_of(server)
    assert client.schedules(10, "x").total == 0
    assert client.schedule_runs("a") == []
    assert dict(server.requests[0].url.params) == {"limit": "10", "after": "x"}
