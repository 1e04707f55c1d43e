# cython: annotation_typing=False
"""Murmur hashes of keys, to the bit as other implementations have them.

`murmur2` is the variant in Kafka's Java client (its own seed, 32 bits), which decides where every
Kafka producer puts a key.  `murmur3` is MurmurHash3_x86_32 with seed 0.

Both take four bytes at a time, lowest first, then the one to three that remain.  Results are
unsigned.  Sums and products are cut to 32 bits by hand: Python's integers do not wrap, and C's
64-bit ones (`murmur.pxd`) hold any product of two 32-bit numbers.
"""

_MASK = 0xFFFF_FFFF
_MURMUR2_SEED = 0x9747_B28C
_MURMUR2_FACTOR = 0x5BD1_E995
_MURMUR3_FACTOR_1 = 0xCC9E_2D51
_MURMUR3_FACTOR_2 = 0x1B87_3593
_MURMUR3_ADDEND = 0xE654_6B64
_MURMUR3_FINAL_1 = 0x85EB_CA6B
_MURMUR3_FINAL_2 = 0xC2B2_AE35


def murmur2(key: bytes) -> int:
    """Kafka's hash of `key`: 0 to 2**32 - 1."""
    octets = key
    size = len(key)
    whole = size & ~3
    hashed = (_MURMUR2_SEED ^ size) & _MASK
    for position in range(0, whole, 4):
        word = (_word(octets, position, 4) * _MURMUR2_FACTOR) & _MASK
        word ^= word >> 24
        hashed = ((hashed * _MURMUR2_FACTOR) & _MASK) ^ ((word * _MURMUR2_FACTOR) & _MASK)
    if whole < size:
        hashed = ((hashed ^ _word(octets, whole, size - whole)) * _MURMUR2_FACTOR) & _MASK
    hashed ^= hashed >> 13
    hashed = (hashed * _MURMUR2_FACTOR) & _MASK
    return hashed ^ (hashed >> 15)


def murmur3(key: bytes) -> int:
    """MurmurHash3_x86_32 of `key` with seed 0: 0 to 2**32 - 1."""
    octets = key
    size = len(key)
    whole = size & ~3
    hashed = 0
    for position in range(0, whole, 4):
        hashed ^= _murmur3_scramble(_word(octets, position, 4))
        hashed = (_rotate_left(hashed, 13) * 5 + _MURMUR3_ADDEND) & _MASK
    if whole < size:
        hashed ^= _murmur3_scramble(_word(octets, whole, size - whole))
    hashed ^= size & _MASK
    hashed = ((hashed ^ (hashed >> 16)) * _MURMUR3_FINAL_1) & _MASK
    hashed = ((hashed ^ (hashed >> 13)) * _MURMUR3_FINAL_2) & _MASK
    return hashed ^ (hashed >> 16)


def _murmur3_scramble(word: int) -> int:
    word = _rotate_left((word * _MURMUR3_FACTOR_1) & _MASK, 15)
    return (word * _MURMUR3_FACTOR_2) & _MASK


def _rotate_left(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def _word(octets: bytes, position: int, size: int) -> int:
    """`size` bytes (at most 4) from `position`, lowest first."""
    word = 0
    while size > 0:
        size -= 1
        word = (word << 8) | octets[position + size]
    return word
