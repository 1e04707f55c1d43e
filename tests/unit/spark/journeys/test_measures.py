from typing import Any

from goqueue.spark.journeys.measures import observe

READER = {"client": "app", "address": "10.0.0.1:4000"}


def row(time_ms: int, event: str, first: int, last: int, **more: Any) -> dict[str, Any]:
    given = {"group": "", "member": "", "client": "", "address": "", "duration_us": -1}
    given |= {"attempt": 0, "detail": "", "space": "data", "partition": 0, "topic": "orders"}
    return {
        **given,
        "time_us": time_ms * 1000,
        "event": event,
        "first": first,
        "last": last,
        **more,
    }


def test_times_between_steps_are_as_the_metrics_count_them():
    events = [
        row(200, "consume.acked", 0, 3, group="g"),
        row(150, "consume.fetched", 0, 9, group="g", attempt=1),
        row(100, "publish.received", 0, 9, duration_us=10_000),
    ]
    found = {(each["step"], each["group"]): each for each in observe(events)}
    times = {key: (each["messages"], each["took_ms"]) for key, each in found.items()}
    assert times == {
        ("publish", ""): (10, 10),
        ("first_delivery", "g"): (10, 40),
        ("ack", "g"): (4, 50),
        ("end_to_end", "g"): (4, 100),
    }
    assert found["end_to_end", "g"]["offset"] == 0


def test_nothing_is_merged_however_many_batches_there_are():
    events = [row(n, "publish.received", n, n, duration_us=0) for n in range(2_000)]
    events.append(row(5_000, "consume.fetched", 0, 1_999, group="g", attempt=1))
    times = [each["took_ms"] for each in observe(events) if each["step"] == "first_delivery"]
    assert times == [5_000 - n for n in range(2_000)]


def test_other_events_say_nothing_of_times():
    assert observe([row(1, "dlq.routed", 0, 0, group="g"), row(2, "leader.changed", 0, 9)]) == []
