from collections.abc import Iterator

import pytest

from goqueue.broker.traces.requester import requester


@pytest.fixture(autouse=True)
def nobody_asks() -> Iterator[None]:
    """What a test says of who asks does not outlive it."""
    token = requester.set(None)
    yield
    requester.reset(token)
