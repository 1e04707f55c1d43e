"""A scrape: both formats, and the event loop turns meanwhile."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector

from goqueue.server import exposition
from goqueue.server.exposition import CONTENT_TYPE, PAUSE, Exposition

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"


class Many(Collector):
    def describe(self):
        return ()

    def collect(self):
        family = GaugeMetricFamily("goqueue_many", "Many.", labels=["at"])
        for number in range(1_000):
            family.add_metric([str(number)], number)
            if number % 100 == 0:
                yield PAUSE
        yield family


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Many())
    histogram = Histogram("goqueue_took_seconds", "Time.", registry=registry)
    histogram.observe(0.3, {"trace_id": "ab"})
    return registry


async def test_text_is_as_the_library_writes_it(registry: CollectorRegistry):
    text, kind = await Exposition(registry).scrape()
    assert kind == CONTENT_TYPE
    families = {family.name: family for family in parse(text.decode())}
    assert set(families) == {"goqueue_many", "goqueue_took_seconds"}
    assert [sample.value for sample in families["goqueue_many"].samples] == list(range(1_000))
    assert text.count(b"# HELP goqueue_many ") == 1
    assert b"_created" not in text
    assert b"trace_id" not in text
    whole = [line for line in generate_latest(registry).splitlines() if b"_created" not in line]
    assert sorted(text.splitlines()) == sorted(line for line in whole if b" pause" not in line)


async def test_openmetrics_has_examples_and_an_end(registry: CollectorRegistry):
    text, kind = await Exposition(registry).scrape(ACCEPT)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in parse_openmetrics(text.decode())}
    assert len(families["goqueue_many"].samples) == 1_000
    (example,) = [
        sample.exemplar for sample in families["goqueue_took_seconds"].samples if sample.exemplar
    ]
    assert (example.labels, example.value) == ({"trace_id": "ab"}, 0.3)
    assert text.endswith(b"\n# EOF\n")
    assert text.count(b"# EOF") == 1


async def test_the_event_loop_turns_while_a_scrape_is_made(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(exposition, "SLICE_SECONDS", 0.0)
    scraping = asyncio.ensure_future(Exposition(registry).scrape())
    turns = 0
    while not scraping.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20  # ten pauses, and ten parts of a large family
