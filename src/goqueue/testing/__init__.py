"""A pytest plugin: `goqueue_broker`, a real broker for tests.

It is found by pytest itself once the package is installed.

    def test_orders(goqueue_broker):
        goqueue_broker.create_topic("orders", partitions=1)
        place_order(bootstrap_servers=goqueue_broker.kafka)
        assert [message.value for message in goqueue_broker.read("orders")] == [b"order 1"]

Each test gets a broker of its own; `goqueue_broker_scope = session` in pytest's configuration
shares one among all (`module` and `class` work too).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

import pytest

if TYPE_CHECKING:
    from goqueue.embedding import BrokerInThread

SCOPE_SETTING: Final = "goqueue_broker_scope"
Scope = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SCOPE_SETTING, "how long a goqueue_broker lives: function, class, module or session"
    )


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    match config.getini(SCOPE_SETTING) or "function":
        case "session" | "package" | "module" | "class" | "function" as scope:
            return scope
        case other:
            raise pytest.UsageError(f"{SCOPE_SETTING}: {other!r} is not a scope of pytest")


@pytest.fixture(scope=_scope)
def goqueue_broker(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[BrokerInThread]":
    """A running broker with its listeners on free ports (`.kafka`, `.http`)."""
    from goqueue.embedding import embedded

    with embedded(tmp_path_factory.mktemp("goqueue")) as broker:
        yield broker
