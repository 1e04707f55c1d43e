"""The verbs of messages' journeys, for programs on an event loop."""

from goqueue.client.http.calls import traces as trace_calls
from goqueue.client.http.calls.call import async_verb


class AsyncTraceVerbs:
    """A part of the client."""

    journey = async_verb(trace_calls.journey)
    trace = async_verb(trace_calls.trace)
    recent_traces = async_verb(trace_calls.recent_traces)
    search_traces = async_verb(trace_calls.search_traces)
    trace_events = async_verb(trace_calls.trace_events)
    trace_stats = async_verb(trace_calls.trace_stats)
