"""Consumers of a queue group that are at work, whether they joined it or not.

Nobody has to join a queue group: a consumer is a name.  It is at work while it waits for messages,
while it holds some, and for a while after it asked last.  That is for people who look at groups; it
is not durable, and nothing is decided by it.
"""

from typing import Final

from goqueue.queue import LeaseBook

CONSUMERS_MAX: Final = 10_000  # names that are remembered of a group

Topics = tuple[str, ...]


class Consumers:
    """Of one group; only the event loop's thread touches it."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, Topics]] = {}  # until which instant, and of what

    def hear(self, consumer: str, topics: Topics, until: int) -> None:
        """It asks for messages of the topics, and is at work until then at least."""
        heard = self._heard
        if len(heard) >= CONSUMERS_MAX and consumer not in heard:
            del heard[min(heard, key=lambda name: heard[name][0])]
        heard[consumer] = (until, topics)

    def forget(self, consumer: str) -> None:
        self._heard.pop(consumer, None)

    def at_work(self, book: LeaseBook, now: int) -> dict[str, Topics]:
        """By name, with the topics that each asked for last."""
        self._heard = {
            name: each
            for name, each in self._heard.items()
            if each[0] > now or name in book.consumers
        }
        found = {name: topics for name, (_, topics) in self._heard.items()}
        return dict.fromkeys(book.consumers, ()) | found
