"""Writes of one step leave together, and not later than they must."""

from collections.abc import Callable

from goqueue.server.http.asgi.connection import GATHERED_BYTES_MAX, _Gathering


class Wire:
    """A transport and a loop at once; both remember."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []
        self.calls: list[Callable[[], None]] = []
        self.is_closed = False

    def writelines(self, data):
        self.sent.append(list(data))

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    def get_write_buffer_size(self):
        return 7

    def call_soon(self, call):
        self.calls.append(call)

    def come_round(self):
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def gathering():
    wire = Wire()
    return wire, _Gathering(wire, wire)  # type: ignore[arg-type]  # as much of both as is used


def test_a_head_and_its_body_are_sent_together():
    wire, transport = gathering()
    transport.write(b"head")
    transport.write(b"body")
    assert wire.sent == []
    assert transport.get_write_buffer_size() == 7 + 8
    wire.come_round()
    assert wire.sent == [[b"head", b"body"]]
    transport.write(b"next")
    wire.come_round()
    wire.come_round()
    assert wire.sent == [[b"head", b"body"], [b"next"]]


def test_much_is_sent_at_once():
    wire, transport = gathering()
    large = b"x" * GATHERED_BYTES_MAX
    transport.write(b"head")
    transport.write(large)
    assert wire.sent == [[b"head", large]]
    wire.come_round()
    assert len(wire.sent) == 1


def test_what_is_written_before_closing_is_sent_and_after_it_is_not():
    wire, transport = gathering()
    transport.write(b"last")
    transport.close()
    assert wire.sent == [[b"last"]]
    transport.write(b"too late")
    wire.come_round()
    assert wire.sent == [[b"last"]]
