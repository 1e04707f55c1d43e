"""However a stream of bytes is cut into packets, the same frames come out of it."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.wire.frame_buffer import OWN_BYTES, SHARED_BYTES, FrameBuffer

FRAME_BYTES_MAX = 8 * 1024 * 1024

small_sizes = st.integers(1, 300)
odd_sizes = st.sampled_from(
    [
        SHARED_BYTES - 5,
        SHARED_BYTES - 4,  # the largest that fits with its length
        SHARED_BYTES - 3,
        SHARED_BYTES,
        OWN_BYTES - 1,
        OWN_BYTES,
        OWN_BYTES + 1,
        3 * OWN_BYTES,
    ]
)


def frame_of(size: int, seed: int) -> bytes:
    return bytes((seed + n) % 251 for n in range(min(size, 997))) * (size // 997 + 1)


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def feed(buffer: FrameBuffer, packet: bytes) -> list[bytes]:
    """Hand over one packet, in as many reads as the buffer's space asks for."""
    found: list[bytes] = []
    while packet:
        space = buffer.space()
        count = min(len(space), len(packet))
        assert count > 0, "there must be room for what comes next"
        space[:count] = packet[:count]
        found += map(bytes, buffer.receive(count))
        packet = packet[count:]
    return found


@given(
    sizes=st.lists(small_sizes | odd_sizes, min_size=1, max_size=8),
    cuts=st.lists(st.floats(0, 1), max_size=12),
)
def test_any_cut_of_the_stream_gives_the_same_frames(sizes: list[int], cuts: list[float]):
    frames = [frame_of(size, seed)[:size] for seed, size in enumerate(sizes)]
    stream = stream_of(frames)
    places = sorted({0, len(stream), *(int(cut * len(stream)) for cut in cuts)})
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    found = [frame for a, b in pairwise(places) for frame in feed(buffer, stream[a:b])]
    assert found == frames
    assert not buffer.held_bytes


@given(st.lists(small_sizes, min_size=1, max_size=20))
def test_a_stream_may_come_byte_by_byte(sizes: list[int]):
    frames = [frame_of(size, seed)[:size] for seed, size in enumerate(sizes)]
    stream = stream_of(frames)
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    found = [frame for at in range(len(stream)) for frame in feed(buffer, stream[at : at + 1])]
    assert found == frames


def test_a_frame_that_has_begun_is_partial_until_it_is_whole():
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    assert not buffer.held_bytes
    feed(buffer, b"\x00\x00")
    assert buffer.held_bytes
    assert feed(buffer, b"\x00\x03ab") == []
    assert buffer.held_bytes
    assert feed(buffer, b"c") == [b"abc"]
    assert not buffer.held_bytes


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1001, 2**31 - 1])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_after_a_length_that_cannot_be_nothing_is_a_frame(size: int, step: int):
    stream = stream_of([b"abc", b"de"]) + struct.pack(">i", size) + stream_of([b"more"]) * 100
    buffer = FrameBuffer(1000)
    found = []
    for at in range(0, len(stream), step):
        found += feed(buffer, stream[at : at + step])
    assert found == [b"abc", b"de"]
    assert "request_bytes_max" in str(buffer.problem)


def test_a_claimed_length_costs_no_memory_before_the_bytes_come():
    buffer = FrameBuffer(2**31 - 1)
    feed(buffer, struct.pack(">i", 2**31 - 1))
    assert len(buffer.space()) <= OWN_BYTES
    feed(buffer, bytes(OWN_BYTES))
    assert len(buffer.space()) <= OWN_BYTES


def test_frames_can_be_written_to():
    """The log stamps offsets into the very bytes that came."""
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    stream = stream_of([b"abc"])
    buffer.space()[: len(stream)] = stream
    (frame,) = buffer.receive(len(stream))
    frame[0] = ord("x")
    assert frame == b"xbc"
