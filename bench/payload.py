"""The messages of `native/gqbench.c`, in Python: the same bytes for the same number."""

from functools import cache

POOL_BYTES = 1 << 20
HEAD_BYTES = 32
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@cache
def pool() -> bytes:
    state, output = 1, bytearray(POOL_BYTES)
    for index in range(POOL_BYTES):
        state = (state * 1103515245 + 12345) & 0xFFFFFFFF
        output[index] = ALPHABET[(state >> 16) & 63]
    return bytes(output)


def message(partition: int, number: int, size: int) -> bytes:
    start = (number + partition * 104729) * 7919 % (POOL_BYTES - size)
    return b"%016x%016x" % (number, 0) + pool()[start : start + size - HEAD_BYTES]
