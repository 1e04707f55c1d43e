"""Requests about the cluster."""

from goqueue.api.cluster import TopicPlaceList, TopicPlaces
from tests.unit.client.http.fake_server import FakeServer, client_of, said


def places(name: str) -> TopicPlaces:
    return TopicPlaces(name, "id", 1, 1, [])


def test_places_of_all_topics_are_read_page_by_page():
    server = FakeServer(
        said(200, TopicPlaceList([places("a")], "a")), said(200, TopicPlaceList([places("b")]))
    )
    assert [each.name for each in client_of(server).topic_places()] == ["a", "b"]
    assert [request.url.path for request in server.requests] == ["/cluster/topics"] * 2
    assert server.requests[1].url.params["after"] == "a"


def test_nodes_are_given_as_a_list():
    server = FakeServer(said(200, {"nodes": []}))
    assert client_of(server).cluster_nodes() == []
