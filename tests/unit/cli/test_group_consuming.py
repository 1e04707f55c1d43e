"""Reading as a member of a group: what is shown is done with, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.cli.group_consuming import LAST_WAIT_MS, PAGE_MESSAGES, WAIT_MS, consume_as_member
from goqueue.client.errors import ServerUnreachable


class Client:
    """Gives the pages that it was made with, then nothing."""

    def __init__(self, *pages: list[str]) -> None:
        self.pages = list(pages)
        self.polls: list[tuple[int, int]] = []
        self.commits: list[bool] = []
        self.gained_at: int | None = None  # the poll after which it has more partitions

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def join(self, reading: Any) -> None:
        self.reading = reading

    def poll(self, reading: Any, *, limit: int, wait_ms: int) -> list[str]:
        self.polls.append((limit, wait_ms))
        if len(self.polls) == self.gained_at:
            reading.partitions = ["one more"]
        page = self.pages.pop(0) if self.pages else []
        self.pages = [page[limit:], *self.pages] if page[limit:] else self.pages
        return page[:limit]

    def leave(self, _reading: Any, *, commit: bool) -> None:
        self.commits.append(commit)


def consume(
    client: Client,
    show: Callable[[str], None],
    *,
    wanted: Callable[[str], bool] | None = None,
    limit: int | None = None,
    follow: bool = False,
) -> None:
    class Session:
        def client(self) -> Client:
            return client

    consume_as_member(
        Session(),  # type: ignore[arg-type]
        "readers",
        "orders",
        wanted,  # type: ignore[arg-type]
        limit,
        show,  # type: ignore[arg-type]
        from_latest=False,
        follow=follow,
    )


def test_everything_is_shown_and_committed():
    client, shown = Client(["a", "b"], ["c"]), list[str]()
    consume(client, shown.append)
    assert shown == ["a", "b", "c"]
    assert client.commits == [True]
    assert client.polls == [(PAGE_MESSAGES, LAST_WAIT_MS)] * 3


def test_no_more_is_taken_than_may_be_shown():
    client, shown = Client(["a", "b", "c"]), list[str]()
    consume(client, shown.append, limit=2)
    assert shown == ["a", "b"]
    assert client.polls == [(2, LAST_WAIT_MS)]


def test_what_the_filter_leaves_out_does_not_count():
    client, shown = Client(["a", "b", "a", "c"]), list[str]()
    consume(client, shown.append, wanted=lambda each: each != "a", limit=2)
    assert shown == ["b", "c"]
    assert [limit for limit, _ in client.polls] == [2, 1, 1]


def test_what_was_not_shown_is_not_committed():
    def fail(_: str) -> None:
        raise BrokenPipeError

    client = Client(["a"])
    with pytest.raises(BrokenPipeError):
        consume(client, fail)
    assert client.commits == [False]


def test_partitions_that_have_just_come_are_read_although_a_poll_was_empty():
    client, shown = Client([], ["a"]), list[str]()
    client.gained_at = 1
    consume(client, shown.append)
    assert shown == ["a"]


def test_who_follows_waits_longer_and_does_not_end():
    client, shown = Client([], [], ["a"]), list[str]()
    consume(client, shown.append, follow=True, limit=1)
    assert shown == ["a"]
    assert {wait for _, wait in client.polls} == {WAIT_MS}


def test_a_server_that_is_gone_when_the_member_leaves_is_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def gone(*_: object, **__: object) -> None:
        raise ServerUnreachable("nobody there")

    client = Client([])
    monkeypatch.setattr(client, "leave", gone)
    consume(client, print)
    assert "could not leave the group: nobody there" in capsys.readouterr().err
