"""A token bucket in which one may run into debt.

Tokens come at `rate` a second, and at most one second of them gathers.  Who finds the bucket
without debt takes what it needs, however much that is: what is missing is a debt, and nobody takes
anything until the tokens that come have paid it.  So a batch that is larger than a second's rate
still passes, and over time no more passes than the rate.
"""

from goqueue.model.ids import Instant

_SECOND_NS = 1_000_000_000


class TokenBucket:
    __slots__ = ("_at", "_tokens", "rate")

    def __init__(self, rate: float, now: Instant) -> None:
        assert rate > 0, "a rate of nothing would never let anybody through"
        self.rate = rate  # tokens a second
        self._tokens = rate  # below 0: a debt
        self._at = now  # invariant: `_tokens` are those of this instant

    def wait_ns(self, now: Instant) -> int:
        """Until the debt is paid; 0 if there is none."""
        self._fill(now)
        return 0 if self._tokens >= 0 else 1 + int(-self._tokens / self.rate * _SECOND_NS)

    def take(self, amount: float, now: Instant) -> int:
        """Take it, whatever is there; gives what `wait_ns` gives then."""
        self._fill(now)
        self._tokens -= amount
        return 0 if self._tokens >= 0 else 1 + int(-self._tokens / self.rate * _SECOND_NS)

    def change_rate(self, rate: float, now: Instant) -> None:
        """What was taken counts on; what has gathered is cut to the new second."""
        self._fill(now)
        self.rate = rate
        self._tokens = min(self._tokens, rate)

    def is_full(self, now: Instant) -> bool:
        """As good as a new one."""
        self._fill(now)
        return self._tokens >= self.rate

    def _fill(self, now: Instant) -> None:
        if now > self._at:
            gained = (now - self._at) * self.rate / _SECOND_NS
            self._tokens = min(self.rate, self._tokens + gained)
            self._at = now
