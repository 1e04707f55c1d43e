"""The asynchronous client."""

from goqueue.api.groups import GroupList, GroupSummary
from goqueue.client import AsyncClient, Client
from tests.unit.client.http.fake_server import FakeServer, said


async def test_the_asynchronous_client_has_the_same_verbs():
    def verbs(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert verbs(AsyncClient) == verbs(Client)


async def test_both_clients_have_the_same_verbs():
    server = FakeServer(
        said(200, GroupList([], "a")),
        said(200, GroupList([GroupSummary("b", "Empty", 0, 1, "consumer")])),
    )
    async with AsyncClient("http://queue.test", transport=server.transport) as client:
        assert [each.id for each in await client.groups()] == ["b"]
    assert server.requests[1].url.params["after"] == "a"
    verbs = {"groups", "group", "group_lag", "group_offsets", "reset_offsets", "delete_group"}
    verbs |= {"join", "poll", "heartbeat", "commit", "leave"}
    assert all(hasattr(kind, verb) for kind in (Client, AsyncClient) for verb in verbs)
