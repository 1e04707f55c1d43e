import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import CorruptData
from goqueue.trace.blocks import decode_block, encode_block, read_head
from goqueue.trace.events import Step, TraceEvent
from tests.unit.trace.trace_events import DEAD, ORDERS, at, event

_texts = st.sampled_from(["", "orders", "worker-1", "größe"])
_numbers = st.integers(-1, 2**53)
events = st.builds(
    TraceEvent,
    _numbers,
    st.sampled_from([int(step) for step in Step]),
    _texts,
    st.sampled_from([b"", ORDERS, DEAD]),
    st.integers(-1, 99),
    _numbers,
    _numbers,
    group=_texts,
    member=_texts,
    error=_texts,
    until_ms=_numbers,
    link_first=_numbers,
)


@given(st.lists(events, min_size=1, max_size=30))
def test_events_come_back_as_they_were(some: list[TraceEvent]):
    assert decode_block(encode_block(some)) == some


def test_the_head_tells_which_messages_a_block_may_have():
    block = encode_block(
        [
            event(5, Step.PUBLISHED, 10, 19),
            event(9, Step.ACKED, 30),
            event(
                7,
                Step.DLQ_ROUTED,
                12,
                link_topic_id=DEAD,
                link_partition=0,
                link_first=3,
            ),
            event(8, Step.GROUP_REBALANCED, -1, group="g"),
            event(8, Step.TRACE_LINKED, 10, detail="4bf92f3577b34da6a3ce929d0e0e4736-00f0"),
        ]
    )
    head = read_head(block)
    assert (head.count, head.first_us, head.last_us) == (5, 5, 9)
    assert [head.may_hold(at(offset)) for offset in (9, 10, 30, 31)] == [False, True, True, False]
    assert head.may_hold(at(3, DEAD))
    assert not head.may_hold(at(4, DEAD))
    assert (head.groups, head.trace_ids) == (["g"], ["4bf92f35"])


def test_ten_thousand_messages_in_a_batch_take_as_much_as_one():
    one = encode_block([event(5, Step.PUBLISHED, 10)])
    many = encode_block([event(5, Step.PUBLISHED, 10, 10_009)])
    assert len(many) <= len(one) + 10


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GQT\x02abcdefgh",
        b"GQT\x01\x00\x00\x00\x01\xc1",
        b"GQT\x01\x00\x00\x00\x00not zstandard",
        b"GQT\x01\x00\x00\x00\x00" + bytes(cramjam.zstd.compress(b"\x01")),
    ],
)
def test_damage_is_told(data: bytes):
    def read() -> None:
        read_head(data)
        decode_block(data)

    with pytest.raises(CorruptData):
        read()
