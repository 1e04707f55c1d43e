"""What is written to a TLS transport at once."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.runtime.tls_writes import JOINED_BYTES, PIECE_BYTES, pieces

SIZES = st.sampled_from(
    [0, 1, 60, JOINED_BYTES, JOINED_BYTES + 1, PIECE_BYTES, 3 * PIECE_BYTES + 7]
)


@given(st.lists(SIZES, max_size=60))
def test_the_bytes_stay_the_same_in_pieces_of_a_bounded_size(sizes: list[int]):
    parts = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    found = list(pieces(parts))
    assert b"".join(found) == b"".join(parts)
    assert all(0 < len(each) <= PIECE_BYTES + JOINED_BYTES for each in found)


def test_small_parts_go_together_and_large_ones_are_not_copied():
    large = bytes(2 * PIECE_BYTES)
    found = list(pieces([b"head", b"of", large, b"tail"]))
    assert [len(each) for each in found] == [6, PIECE_BYTES, PIECE_BYTES, 4]
    assert all(isinstance(each, memoryview) and each.obj is large for each in found[1:3])
