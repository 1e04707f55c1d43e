"""Requests about journeys: what is asked."""

from goqueue.client.http.calls import traces


def test_paths_and_queries():
    assert traces.journey("a/b", 1, 2).path == "/messages/a%2Fb/1/2/journey"
    assert traces.trace("4b").path == "/traces/4b"
    assert traces.recent_traces(limit=5).query == {"limit": "5"}
    found = traces.search_traces(topic="t", partition=0, status="error", min_duration="1s")
    assert (found.path, found.query) == (
        "/traces/search",
        {"topic": "t", "partition": "0", "status": "error", "min_duration": "1s", "limit": "100"},
    )
    assert traces.trace_stats().path == "/traces/stats"
