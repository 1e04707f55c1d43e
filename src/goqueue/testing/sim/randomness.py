"""Randomness that a seed repeats."""

import random


class SimRandom:
    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
