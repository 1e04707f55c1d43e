"""Kafka's five codecs, with a bound on what comes out.

    id  name    what the bytes are
    0   none    themselves
    1   gzip    RFC 1952, one member or several
    2   snappy  one raw block, or blocks in the framing of the Java library ("xerial"):
                82 53 4E 41 50 50 59 00 | version, int32 | oldest compatible version, int32
                then for each block: its length, int32 | a raw block of up to 32 KiB unfolded
    3   lz4     LZ4 frames; Java readers refuse blocks that refer to earlier ones
    4   zstd    RFC 8878 frames, with or without the content's size

A few kilobytes can unfold to gigabytes, so nothing is decompressed into a buffer that grows by
itself.  A size that the data declares is compared with the limit first.  Then the output goes to
a buffer of fixed size, where the codec stops when it is full; the first buffer is a guess, and
each further one four times larger until it reaches the limit.  All in all that takes at most some
twice the limit in resident memory, and less than two passes over it in time.  A zstd frame may
also reserve its window, up to 128 MiB of addresses, of which only what is written becomes resident.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from goqueue.model.errors import BatchTooLarge, CorruptBatch, InvalidSetting, UnsupportedBatch
from goqueue.model.record import Buffer


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES = tuple(codec.name.lower() for codec in Codec)  # by id

# Levels that trade little time for most of the gain.  cramjam would take 11 for zstd.
GZIP_LEVEL = 6
LZ4_LEVEL = 1
ZSTD_LEVEL = 3

_BUFFER_BYTES_MIN = 4096
_BUFFER_RATIO = 8  # the first guess at output / input, when the data does not say
_BUFFER_GROWTH = 4
_BUFFER_FULL = "write whole buffer"  # how cramjam says that the buffer ended before the data

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_RATIO_MAX = 22  # its densest element takes 3 bytes and stands for 64

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_INT32 = Struct(">i")

_DecompressInto = Callable[[Buffer, bytearray], int]


def codec_id(name: str) -> Codec:
    """Raises `InvalidSetting` for an unknown name."""
    if name in CODEC_NAMES:
        return Codec(CODEC_NAMES.index(name))
    raise InvalidSetting(f"compression {name!r} is unknown: use one of {', '.join(CODEC_NAMES)}")


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """What `data` stands for, when that is at most `limit` bytes.

    Raises `CorruptBatch` for damaged data, `BatchTooLarge` beyond the limit, `UnsupportedBatch`
    for an unknown codec.
    """
    match _codec(codec):
        case Codec.NONE:
            _check_size(len(data), limit)
            return bytes(data)
        case Codec.GZIP:
            return _unfold(cramjam.gzip.decompress_into, data, _gzip_declared(data), limit)
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        case Codec.LZ4:
            return _unfold(cramjam.lz4.decompress_into, data, _lz4_declared(data), limit)
        case Codec.ZSTD:
            return _unfold(cramjam.zstd.decompress_into, data, _zstd_declared(data), limit)


def compress(codec: int, data: Buffer) -> bytes:
    """`data` in the framing that Kafka clients expect; raises `UnsupportedBatch`."""
    match _codec(codec):
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, GZIP_LEVEL))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL))


def _compress_lz4(data: Buffer) -> bytes:
    compressor = cramjam.lz4.Compressor(LZ4_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _codec(codec: int) -> Codec:
    try:
        return Codec(codec)
    except ValueError as error:
        raise UnsupportedBatch(f"compression codec {codec} is unknown: Kafka has 0 to 4") from error


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise BatchTooLarge(f"records of {size} bytes when decompressed, {limit} allowed")


# --- gzip, lz4, zstd: streams -----------------------------------------------------------------


def _unfold(decompress_into: _DecompressInto, data: Buffer, declared: int, limit: int) -> bytes:
    """`declared` is the size of one of the frames in `data`, 0 when it is not said."""
    _check_size(declared, limit)
    guess = declared or _BUFFER_RATIO * len(data)
    size = min(limit, max(_BUFFER_BYTES_MIN, guess))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
            return bytes(memoryview(output)[:written])
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise CorruptBatch(f"compressed records are damaged: {error}") from error
        _check_size(size + 1, limit)
        size = min(limit, size * _BUFFER_GROWTH)


def _gzip_declared(data: Buffer) -> int:
    """The last member's size: its last four bytes."""
    return int.from_bytes(data[-4:], "little") if len(data) >= 18 else 0


def _lz4_declared(data: Buffer) -> int:
    """magic | flags, bit 3: has size | block size | size, uint64 | …"""
    if data[:4] != _LZ4_MAGIC or len(data) < 15 or not data[4] & 0x08:
        return 0
    return int.from_bytes(data[6:14], "little")


def _zstd_declared(data: Buffer) -> int:
    """magic | flags: bits 7-6 size field, 5 no window field, 1-0 dictionary field | … | size | …

    The size field has 0, 2, 4 or 8 bytes, and 1 instead of 0 when there is no window field.
    """
    if data[:4] != _ZSTD_MAGIC or len(data) < 5:
        return 0
    flags = data[4]
    has_window = not flags & 0x20
    start = 5 + has_window + (0, 1, 2, 4)[flags & 3]
    field = (0 if has_window else 1, 2, 4, 8)[flags >> 6]
    size = int.from_bytes(data[start : start + field], "little")
    return size + 256 if field == 2 else size


# --- snappy: blocks ---------------------------------------------------------------------------


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return bytes(_decompress_block(data, 0, limit))
    view = memoryview(data)
    blocks: list[bytearray] = []
    size = 0
    position = len(_XERIAL_HEADER)
    while position < len(view):
        length = _block_length(view, position)
        position += _INT32.size
        block = _decompress_block(view[position : position + length], size, limit)
        position += length
        size += len(block)
        blocks.append(block)
    if position != len(view):
        raise CorruptBatch(f"snappy header cut at byte {len(view)}")
    return b"".join(blocks)


def _block_length(view: memoryview, position: int) -> int:
    left = len(view) - position - _INT32.size
    length = _INT32.unpack_from(view, position)[0] if left >= 0 else 0
    if not 0 < length <= left:
        raise CorruptBatch(f"snappy block of {length} bytes at byte {position}, {left} left")
    return int(length)


def _decompress_block(block: Buffer, bytes_before: int, limit: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        _check_size(bytes_before + size, limit)
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise CorruptBatch(f"snappy block of {len(block)} bytes cannot hold {size}")
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"compressed records are damaged: {error}") from error
    assert written == size, "snappy declares its size"
    return output


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, max(1, len(view)), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_INT32.pack(len(block)), block)
    return b"".join(pieces)
