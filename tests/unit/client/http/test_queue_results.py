"""What the server says about queues and dead letters."""

import msgspec

import goqueue
from tests.unit.client.http.fake_server import FakeServer, client_of, said


def test_a_delivery_has_its_receipt_under_both_names():
    delivery = goqueue.Delivery("t", 0, 0, 0, None, b"v", receipt="r")
    assert delivery.receipt_handle == delivery.receipt == "r"
    server = FakeServer(said(200, {"settled": 1, "refused": 0, "results": [{"action": "acked"}]}))
    client_of(server).ack(delivery, delivery.receipt_handle)
    assert msgspec.json.decode(server.requests[0].content) == {"receipt_handles": ["r", "r"]}
