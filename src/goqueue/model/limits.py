"""Bounds that the broker keeps and that its HTTP contract tells."""

from typing import Final

RECEIVE_MESSAGES_MAX: Final = 10_000  # in one receive
RECEIVE_BYTES_MAX: Final = 16 * 1024 * 1024
VISIBILITY_MS_MAX: Final = 7 * 24 * 3_600_000
ATTEMPT_TIMEOUT_MS: Final = 15 * 60_000  # of an attempt at a task that names none
