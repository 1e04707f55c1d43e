"""How long messages took, for Prometheus; with trace ids as OpenMetrics."""

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.unit.server.http.test_metrics import scrape

Client = httpx.AsyncClient
ACCEPT = {"accept": "application/openmetrics-text; version=1.0.0"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


async def test_a_worker_s_steps_are_timed_and_have_examples(server, client: Client):
    await client.post("/topics", json={"name": "steps", "num_partitions": 1})
    body = {"messages": [{"value": "x"}]}
    await client.post("/topics/steps/messages", json=body, headers=PARENT)
    receive = {"group": "timed", "consumer": "w", "wait": "5s"}
    (message,) = (await client.post("/queues/steps/receive", json=receive)).json()["messages"]
    seen = await scrape(client)
    assert seen['goqueue_consumer_lag_seconds{group="timed",topic="steps"}'] >= 0
    receipt = {"receipt_handle": message["receipt_handle"]}
    await client.post("/messages/ack", json=receipt)
    await server.broker.trace_history.flush()
    await server.broker.latency_counter.count()
    seen = await scrape(client)
    assert seen['goqueue_message_publish_seconds_count{topic="steps"}'] == 1
    for step in ("first_delivery", "ack", "end_to_end"):
        assert seen[f'goqueue_message_{step}_seconds_count{{group="timed",topic="steps"}}'] == 1
    answer = await client.get("/metrics", headers=ACCEPT)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {each.name: each for each in text_string_to_metric_families(answer.text)}
    (example,) = [
        sample.exemplar
        for sample in families["goqueue_message_publish_seconds"].samples
        if sample.exemplar and sample.labels["topic"] == "steps"
    ]
    assert example.labels == {"trace_id": TRACE}
    assert (await client.get(f"/traces/{TRACE}")).json()["topic"] == "steps"


async def test_events_of_journeys_are_counted(client: Client):
    before = (await scrape(client))["goqueue_trace_events_total"]
    await client.post("/topics", json={"name": "traced", "num_partitions": 1})
    await client.post("/topics/traced/messages", json={"messages": [{"value": "x"}]})
    seen = await scrape(client)
    assert seen["goqueue_trace_events_total"] > before
    assert seen["goqueue_trace_events_dropped_total"] == 0
    assert seen["goqueue_latency_events_dropped_total"] == 0
