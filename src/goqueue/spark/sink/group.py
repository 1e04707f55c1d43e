"""One version of an application on the broker: attempts at its tasks, and the decision.

    task      start_run ──> decided before?  nothing to do
                        └─> start_attempt ──> write as that producer ──> report it to the driver
    driver    decide(all reported attempts)      one record; or abort

Every call may be repeated, and is, for as long as the option `timeout` says: a broker may be
started again meanwhile.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from goqueue.api.transactions import RunStarted
from goqueue.client import Client
from goqueue.client.http.calls import transactions as calls
from goqueue.client.http.calls.transactions import Member
from goqueue.client.kafka import KafkaLogin

RETRIES_MAX: Final = 1_000_000  # the time-out ends them


class Version(msgspec.Struct, frozen=True):
    """What is written: so much of an application's work, in one of its runs."""

    application: str
    number: int
    run_name: str
    """Tells one driver's life from the next: those before it are fenced."""


class Group:
    """The HTTP side of group transactions."""

    def __init__(self, url: str, timeout_ms: int, login: KafkaLogin) -> None:
        self.url = url
        shown = login.for_http()
        self._client = Client(url, timeout=timeout_ms / 1000, retries=RETRIES_MAX, **shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def start_run(self, version: Version) -> RunStarted:
        return self._client.send(calls.start_run(version.application, version.run_name))

    def newest_run(self, application: str) -> int | None:
        """None when nobody has heard of the application."""
        run = self._client.send(calls.describe_application(application)).run
        return run if run >= 0 else None

    def start_attempt(
        self, version: Version, run: int, *, task: int, attempt: int, timeout_ms: int
    ) -> Member | None:
        """A producer to write as; None when the version is decided, and nothing is to be done."""
        started = self._client.send(
            calls.start_attempt(
                version.application,
                version=version.number,
                run=run,
                task=task,
                attempt=attempt,
                timeout_ms=timeout_ms,
            )
        )
        if started.already_decided:
            return None
        return msgspec.convert(started, Member, from_attributes=True)

    def decide(self, version: Version, run: int, members: Sequence[Member], contents: str) -> None:
        """Make all of it visible; that it was decided before, with these contents, is as good."""
        self._client.send(
            calls.decide(
                version.application,
                version=version.number,
                run=run,
                members=members,
                contents=contents,
            )
        )

    def abort(self, application: str, number: int, run: int) -> None:
        """Give up every attempt; nothing happens to what is decided."""
        self._client.send(calls.abort_version(application, version=number, run=run))

    def retire(self, application: str) -> None:
        """Nobody will write in its name again."""
        self._client.send(calls.retire_application(application))

    def give_up(self, member: Member) -> None:
        """End one attempt; the others of its version go on."""
        self._client.send(calls.abort_transaction(member.transactional_id))
