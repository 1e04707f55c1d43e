"""A client of a server whose answers a test may change."""

import json
from typing import Any

import httpx
import pytest

from goqueue.cli.session import Session
from goqueue.client import Client
from tests.unit.cli.commands.cluster.cluster_answers import COORDINATORS, NODE, QUORUM, TOPIC


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """By path; a test may change them."""
    found: dict[str, Any] = {
        "/cluster/nodes": {"nodes": [NODE]},
        "/cluster/topics": {"topics": [TOPIC]},
        "/cluster/quorum": QUORUM,
        "/admin/coordinators": {"coordinators": COORDINATORS},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        if request.content:
            found["sent"] = json.loads(request.content)
        return httpx.Response(200, json=found[request.url.path])

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(Session, "client", lambda _: Client("http://x", transport=transport))
    return found
