"""What the client of etcd makes of answers and failures; test_etcd.py has the real server."""

import asyncio
import ssl

import httpx
import pytest

from goqueue.cluster.consensus.etcd_client import EtcdClient, EtcdRefusal, EtcdSettings
from goqueue.model.errors import QuorumUnavailable, Uncertain
from goqueue.testing.sim import SimClock, SimLoop, run

SETTINGS = EtcdSettings(["http://a", "http://b"], "p", give_up_seconds=1.0)
REFUSED = httpx.Response(429, json={"code": 8, "message": "database space exceeded"})
LEADERLESS = httpx.Response(503, json={"code": 14, "message": "no leader"})
FINE = httpx.Response(200, json={"header": {}})

Step = httpx.Response | Exception


def ask(*steps: Step, then: Step) -> list[str]:
    """What was asked of whom; each step is what comes of one request."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        step = steps[len(asked)] if len(asked) < len(steps) else then
        asked.append(request.url.host)
        if isinstance(step, Exception):
            raise step
        return httpx.Response(step.status_code, content=step.content)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        client = EtcdClient(SETTINGS, SimClock(loop))
        client._http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
        await client.ask("/v3/kv/txn", {})

    run(story())
    return asked


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("nobody there"),
        httpx.ReadTimeout("silence"),
        httpx.RemoteProtocolError("gone"),
        ssl.SSLError("bad certificate"),
        LEADERLESS,
        httpx.Response(502, content=b"a proxy's page"),
    ],
    ids=str,
)
def test_next_endpoint_is_asked(trouble: Step):
    assert ask(trouble, then=FINE) == ["a", "b"]


def test_who_was_never_reached_has_done_nothing():
    with pytest.raises(QuorumUnavailable, match="nobody there"):
        ask(then=httpx.ConnectError("nobody there"))


def test_who_may_have_heard_may_have_done_it():
    with pytest.raises(Uncertain):
        ask(httpx.ReadTimeout("silence"), then=httpx.ConnectError("nobody there"))


def test_refusal_is_certain_unless_an_earlier_try_may_have_been_heard():
    with pytest.raises(EtcdRefusal, match="space exceeded"):
        ask(httpx.ConnectError("nobody there"), then=REFUSED)
    with pytest.raises(Uncertain, match="space exceeded"):
        ask(httpx.ReadTimeout("silence"), then=REFUSED)
