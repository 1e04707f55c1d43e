# Generated from async_traces.py by `make generate`: change that one, not this.
"""The verbs of messages' journeys, for programs that wait."""

from goqueue.client.http.calls import traces as trace_calls
from goqueue.client.http.calls.call import verb


class TraceVerbs:
    """A part of the client."""

    journey = verb(trace_calls.journey)
    trace = verb(trace_calls.trace)
    recent_traces = verb(trace_calls.recent_traces)
    search_traces = verb(trace_calls.search_traces)
    trace_events = verb(trace_calls.trace_events)
    trace_stats = verb(trace_calls.trace_stats)
