"""`goqueue consume --group`: read as a member, show, and let the server commit what was shown."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

from goqueue.cli.session import Session

if TYPE_CHECKING:
    from goqueue.client import Client, GroupReading, Received

PAGE_MESSAGES: Final = 1000
WAIT_MS: Final = 10_000
LAST_WAIT_MS: Final = 3_000  # without --follow: nothing for so long is the end

Filter = Callable[["Received"], bool]
Show = Callable[["Received"], None]


def consume_as_member(
    session: Session,
    group: str,
    topic: str,
    wanted: Filter | None,
    limit: int | None,
    show: Show,
    *,
    from_latest: bool,
    follow: bool,
) -> None:
    from goqueue.client import GroupReading

    reading = GroupReading(
        group,
        [topic],
        client_id="goqueue-cli",
        auto_commit_interval_ms=1_000,
        offset_reset="latest" if from_latest else "earliest",
    )
    with session.client() as client:
        client.join(reading)
        member = _Member(client, reading, wanted, show)
        try:
            member.run(limit, WAIT_MS if follow else LAST_WAIT_MS, follow=follow)
        finally:
            member.leave()


class _Member:
    def __init__(
        self, client: "Client", reading: "GroupReading", wanted: Filter | None, show: Show
    ) -> None:
        self._client = client
        self._reading = reading
        self._wanted = wanted
        self._show = show
        self._is_done = True  # with all that was given

    def run(self, limit: int | None, wait_ms: int, *, follow: bool) -> None:
        left = limit
        while left != 0:
            most = PAGE_MESSAGES if left is None else min(left, PAGE_MESSAGES)
            partitions = self._reading.partitions
            messages = self._client.poll(self._reading, limit=most, wait_ms=wait_ms)
            shown = self._show_all(messages)
            left = None if left is None else left - shown
            if not follow and not messages and partitions == self._reading.partitions:
                return

    def _show_all(self, messages: "list[Received]") -> int:
        """How many were shown; one that the filter leaves out is done with as well."""
        self._is_done = not messages
        shown = 0
        for message in messages:
            if self._wanted is None or self._wanted(message):
                self._show(message)
                shown += 1
        sys.stdout.flush()
        self._is_done = True
        return shown

    def leave(self) -> None:
        """What was not shown is read again, by the next reader."""
        from goqueue.client.errors import ClientError

        try:
            self._client.leave(self._reading, commit=self._is_done)
        except ClientError as error:  # the server is gone, or has forgotten us: it will notice
            typer.echo(f"note: could not leave the group: {error}", err=True)
