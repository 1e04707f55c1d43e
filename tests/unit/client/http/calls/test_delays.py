"""Requests about delayed messages: what is said, and which may be sent twice."""

import msgspec

from goqueue.client.http.calls import delays


def test_paths_and_bodies():
    page = delays.delayed_messages("a/b", limit=5, cursor="c")
    assert (page.path, page.query) == ("/topics/a%2Fb/delayed", {"limit": "5", "cursor": "c"})
    assert delays.delayed_message("t", 1, 2).path == "/topics/t/delayed/1/2"
    assert delays.cancel_delay("t", 1, 2).method == "DELETE"
    moved = delays.reschedule_delay("t", 1, 2, delay_ms=5)
    assert msgspec.json.decode(moved.body or b"") == {"delay": 5, "deliver_at": None}
    assert moved.is_repeatable
    assert delays.delay_stats().path == "/delay/stats"
