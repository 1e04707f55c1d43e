"""Records for tests: one of every kind, and any that Hypothesis can think of."""

from hypothesis import strategies as st

from goqueue.model.record import Record

BASE_TIMESTAMP = 1_700_000_000_000

EVERY_KIND = [
    Record(0, BASE_TIMESTAMP, b"key", b"value"),
    Record(1, BASE_TIMESTAMP + 1, None, b"no key"),
    Record(2, BASE_TIMESTAMP - 70_000, b"tombstone", None),
    Record(3, BASE_TIMESTAMP + 5_000_000_000, b"", b""),
    Record(4, BASE_TIMESTAMP, b"k", b"v" * 70, (("one", b"1"), ("", None), ("größe", b""))),
    Record(5, BASE_TIMESTAMP, None, None, (("trace", b"\x00\xff"),)),
]

blobs = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=150)
header_lists = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=10), st.none() | st.binary()),
    max_size=4,
).map(tuple)
timestamps = st.integers(-1, 2**62) | st.integers(BASE_TIMESTAMP, BASE_TIMESTAMP + 10_000)


@st.composite
def record_lists(draw: st.DrawFn, *, min_size: int = 0) -> list[Record]:
    """Records numbered from 0."""
    bodies = draw(
        st.lists(st.tuples(timestamps, blobs, blobs, header_lists), min_size=min_size, max_size=8)
    )
    return [Record(offset, *body) for offset, body in enumerate(bodies)]
