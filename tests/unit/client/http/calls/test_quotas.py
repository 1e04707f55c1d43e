"""Requests about quotas."""

import msgspec

from goqueue.api.quotas import QuotaBody, QuotaList
from tests.unit.client.http.fake_server import FakeServer, client_of, said

OF_ANN = QuotaBody({"request_rate": 5.0}, user="ann")


def test_quotas_are_set_listed_and_removed():
    server = FakeServer(said(200, OF_ANN), said(200, QuotaList([OF_ANN], 1)), said(200, OF_ANN))
    client = client_of(server)
    assert client.set_quotas({"request_rate": 5, "x": None}, user="ann") == OF_ANN
    assert client.quotas(user="ann") == [OF_ANN]
    assert client.delete_quotas(user="ann") == OF_ANN
    assert [each.method for each in server.requests] == ["PATCH", "GET", "DELETE"]
    body = msgspec.json.decode(server.requests[0].content)
    assert body["quotas"] == {"request_rate": 5, "x": None}
    assert dict(server.requests[2].url.params) == {"user": "ann"}
