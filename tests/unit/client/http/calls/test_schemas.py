"""Requests about schemas."""

from goqueue.api.schemas import CompatibilityCheck, CompatibilityLevel
from tests.unit.client.http.fake_server import FakeServer, client_of, said


def test_subjects_may_have_any_name():
    server = FakeServer(
        said(200, CompatibilityCheck(True, [])), said(200, CompatibilityLevel("FULL"))
    )
    client = client_of(server)
    assert client.check_schema("a b", '"int"', version=3).is_compatible
    assert client.schema_level("a b").compatibility == "FULL"
    paths = [request.url.path for request in server.requests]
    assert paths == ["/schemas/compatibility/subjects/a b/versions/3", "/schemas/config/a b"]
