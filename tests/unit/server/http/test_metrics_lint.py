"""The exposition by the rules of `promtool check metrics`, and without doubled series."""

import re
from collections import Counter

import httpx
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from goqueue.server import metrics as server_metrics

Client = httpx.AsyncClient

# promlint of Prometheus: a name should not say its type, nor use a unit other than the base one.
RESERVED_ENDINGS = ("_count", "_sum", "_bucket", "_info")
OTHER_UNITS = re.compile(
    r"_(ms|us|ns|milliseconds|microseconds|nanoseconds|minutes|hours|days"
    r"|kilobytes|megabytes|gigabytes|kb|mb|gb|percent)(_|$)"
)
NOT_OURS = ("python_", "process_")


@pytest_asyncio.fixture(loop_scope="session")
async def text(client: Client) -> str:
    await client.post("/topics", json={"name": "t", "num_partitions": 2})
    await client.post("/topics/t/messages", json={"messages": [{"value": "x", "partition": 1}]})
    await client.get("/topics/t")
    return (await client.get("/metrics")).text


def problems(name: str, kind: str, meaning: str) -> list[str]:
    """As promlint finds them; `name` is as the parser gives it, a counter's without `_total`."""
    found = []
    if not meaning:
        found.append("no help text")
    if kind != "counter" and name.endswith("_total"):
        found.append("only counters end in _total")
    if name.endswith(RESERVED_ENDINGS) and name != "goqueue_build_info":
        found.append("ends as the series of a histogram do")
    if OTHER_UNITS.search(name):
        found.append("not in a base unit")
    if kind in re.split("_", name):
        found.append("the type is in the name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        found.append("not in snake case")
    if kind == "unknown":
        found.append("no type")
    return found


async def test_every_family_passes_promtool(text: str):
    families = list(text_string_to_metric_families(text))
    found = {
        family.name: wrong
        for family in families
        if not family.name.startswith(NOT_OURS)
        and (wrong := problems(family.name, family.type, family.documentation))
    }
    assert found == {}
    assert max(Counter(family.name for family in families).values()) == 1
    series = Counter(
        (sample.name, *sorted(sample.labels.items()))
        for family in families
        for sample in family.samples
    )
    assert max(series.values()) == 1


async def test_no_series_of_when_a_series_began(text: str):
    assert "_created" not in text


async def test_a_topic_and_its_partitions_have_sizes_and_offsets(text: str):
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
    for name, value in (
        ('goqueue_partition_start_offset{partition="1",topic="t"}', 0),
        ('goqueue_partition_end_offset{partition="1",topic="t"}', 1),
        ("goqueue_partitions_read_only", 0),
        ("goqueue_partitions_left_out", 0),
        ("goqueue_topics_left_out", 0),
    ):
        assert float(values[name]) == value, name
    assert float(values['goqueue_partition_size_bytes{partition="1",topic="t"}']) > 0
    assert float(values["goqueue_disk_free_bytes"]) > 0
    assert float(values["goqueue_disk_free_bytes_min"]) == 104_857_600


async def test_series_are_bounded_and_what_has_no_room_is_counted(
    server, client: Client, text: str, monkeypatch
):
    monkeypatch.setattr(server_metrics, "TOPICS_SHOWN_MAX", 1)
    monkeypatch.setattr(server_metrics, "PARTITIONS_SHOWN_MAX", 1)
    await client.post("/topics", json={"name": "u", "num_partitions": 1})
    await client.post("/topics/u/messages", json={"messages": [{"value": "x"}]})
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    by_name = {family.name: family for family in families}
    assert len(by_name["goqueue_log_size_bytes"].samples) == 1
    assert len(by_name["goqueue_partition_end_offset"].samples) == 1
    topics = len(server.broker.topics(internal=True)) + 6  # the broker's own logs have series too
    left_out = by_name["goqueue_topics_left_out"].samples[0].value
    assert left_out in (topics - 1, topics)  # one more when there is an event in `__traces`
    opened = len(list(server.broker.partitions))
    assert by_name["goqueue_partitions_left_out"].samples[0].value == opened - 1
