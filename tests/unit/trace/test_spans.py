from goqueue.trace.events import Step
from goqueue.trace.spans import SpanMaker
from tests.unit.trace.trace_events import DEAD, event

TRACE, SPAN = "4b" * 16, "00f0" * 4
LINKED = event(90, Step.TRACE_LINKED, 3, detail=f"{TRACE}-{SPAN}")


def test_a_message_with_a_trace_of_its_own_has_a_span_below_its_producers():
    published = event(100, Step.PUBLISHED, 0, 9, duration_us=40, client="shop")
    own, others = SpanMaker().make([LINKED, published])
    assert (own.trace_id, own.parent_span_id, own.name) == (TRACE, SPAN, "publish")
    assert (own.start_us, own.end_us) == (100, 140)
    assert own.attributes["messaging.kafka.offset"] == 3
    assert others.trace_id.startswith("67")
    assert others.attributes["messaging.batch.message_count"] == 9
    assert own.span_id != others.span_id


def test_a_trace_goes_on_at_the_dead_letters():
    spans = SpanMaker()
    link = {"link_topic_id": DEAD, "link_partition": 0, "link_topic": "orders.dlq"}
    routed = event(200, Step.DLQ_ROUTED, 3, link_first=7, **link)  # type: ignore[arg-type]
    (first,) = spans.make([LINKED, routed])
    assert first.attributes["goqueue.link"] == "orders.dlq/0/7"
    (second,) = spans.make([event(300, Step.DLQ_REDRIVEN, 7, topic_id=DEAD)])
    assert (second.trace_id, second.parent_span_id) == (TRACE, SPAN)


def test_ten_thousand_messages_are_one_span_and_context_is_none():
    spans = SpanMaker().make(
        [
            event(1, Step.FETCHED, 0, 9_999, group="g"),
            event(1, Step.LEADER_CHANGED, 0, 2**62),
            event(2, Step.PUBLISH_REJECTED, -1, error="too large"),
        ]
    )
    assert [span.name for span in spans] == ["consume.fetched", "publish.rejected"]
    assert spans[1].error == "too large"
