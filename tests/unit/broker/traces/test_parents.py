from goqueue.broker.traces.parents import (
    KEPT_BYTES_MAX,
    UnreadBatches,
    find_parents,
    may_have_parents,
)
from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.record import Record
from goqueue.trace.events import Step, TraceEvent

TRACE, SPAN = "4b" * 16, "00f067aa0ba902b7"
PARENT = ("traceparent", f"00-{TRACE}-{SPAN}-01".encode())
AT = TraceEvent(5, Step.PUBLISHED, "jobs", bytes(16), 2, 0, 1)


def batch(*headers: tuple[tuple[str, bytes], ...], size: int = 10, codec: int = 0) -> bytearray:
    records = [Record(at, 0, None, b"x" * size, each) for at, each in enumerate(headers)]
    return batches.encode(records, codec=codec, base_offset=100)


def test_one_look_tells_whether_there_may_be_any():
    for size in (10, 5000):
        assert may_have_parents(batch((), (PARENT,), size=size))
        assert not may_have_parents(batch((), (("trace", b"parent"),), size=size))
    assert may_have_parents(batch((), codec=Codec.ZSTD))  # nobody knows


def test_each_message_that_has_one_is_found():
    for codec in (0, Codec.GZIP):
        data = batch((), (PARENT,), (("traceparent", b"nonsense"),), codec=codec)
        (found,) = find_parents([(AT, bytes(data))])
        assert (found.first, found.last, found.partition) == (101, 101, 2)
        assert found.detail == f"{TRACE}-{SPAN}"


def test_what_nobody_can_read_is_passed_over():
    data = batch((PARENT,), codec=Codec.GZIP)
    data[-5:] = b"\0\0\0\0\0"
    good = bytes(batch((PARENT,)))
    assert len(find_parents([(AT, bytes(data)), (AT, good)])) == 1


def test_what_is_kept_is_bounded():
    kept = UnreadBatches()
    data = bytes(KEPT_BYTES_MAX // 3)
    for _ in range(5):
        kept.keep(AT, data)
    assert kept.skipped_total == 2
    assert len(kept.take()) == 3
    kept.keep(AT, data)
    assert len(kept.take()) == 1
