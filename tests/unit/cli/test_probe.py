"""Whether anything listens at an address."""

import socket

import pytest

from goqueue.cli.probe import is_listening


def test_a_listener_is_noticed_and_its_end_too():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert is_listening(url, 5.0)
    assert not is_listening(url, 5.0)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:x", "http://["])
def test_what_is_no_address_is_nobodys(url: str):
    assert not is_listening(url, 0.1)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://host", ("host", 80)),
        ("https://host", ("host", 443)),
        ("http://host:8080/path", ("host", 8080)),
        ("http://[::1]:1", ("::1", 1)),
    ],
)
def test_the_port_is_the_schemes_unless_it_is_given(
    url: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[str, int]] = []

    def connect(wanted: tuple[str, int], timeout: float) -> socket.socket:
        asked.append(wanted)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    is_listening(url, 1.0)
    assert asked == [address]
