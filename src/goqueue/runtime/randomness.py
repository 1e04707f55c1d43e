"""The real randomness: for ids nobody may guess, and for jitter."""

import os
import random


class RealRandom:
    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)
