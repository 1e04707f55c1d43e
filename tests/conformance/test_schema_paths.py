"""Schemas over this server's own paths, and its client."""

from collections.abc import Iterator

import httpx
import pytest

from goqueue.api.schemas import SchemaReference
from goqueue.client import Client
from goqueue.client.errors import Refused
from tests.conformance.server import Server

USER = '{"type":"record","name":"U","fields":[{"name":"a","type":"int"}]}'
WIDER = USER.replace("}]", '},{"name":"b","type":"int"}]')


@pytest.fixture
def subject(names: Iterator[str]) -> str:
    return f"{next(names)}-value"


def test_the_client_registers_checks_and_deletes(server: Server, subject: str):
    with Client(f"http://{server.http_address}") as client:
        first = client.register_schema(subject, USER)
        assert first.version == 1
        found = client.check_schema(subject, WIDER)
        assert not found.is_compatible
        assert found.messages[0].startswith("READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1")
        with pytest.raises(Refused) as caught:
            client.register_schema(subject, WIDER)
        assert caught.value.code == "incompatible_schema"
        assert client.set_schema_level("FORWARD", subject).compatibility == "FORWARD"
        assert client.register_schema(subject, WIDER).version == 2
        users = SchemaReference("U", subject)
        client.register_schema(f"{subject}s", '{"type":"array","items":"U"}', references=[users])
        assert client.schema_version(f"{subject}s").references[0].version == 2
        assert client.delete_subject(f"{subject}s") == [1]
        assert client.delete_schema_version(subject, 1).deleted == 1
        stats = {each.subject: each for each in client.schema_stats().subjects}
        assert stats[subject].latest_version == 2


def test_paths_have_this_servers_errors(server: Server, subject: str):
    base = f"http://{server.http_address}/schemas"
    missing = httpx.get(f"{base}/subjects/{subject}/versions/latest")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "subject_not_found")
    sent = httpx.post(f"{base}/subjects/{subject}/versions", json={"schema": USER}).json()
    assert sent["version"] == 1
    assert httpx.get(f"{base}/ids/{sent['id']}").json()["schema"] == USER
    assert httpx.post(f"{base}/subjects/{subject}", json={"schema": USER}).json()["version"] == 1
    wrong = httpx.put(f"{base}/config", json={"compatibility": "SOMETIMES"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid_compatibility")
