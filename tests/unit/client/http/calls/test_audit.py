"""Requests about the audit log."""

from goqueue.api.audit import AuditList
from tests.unit.client.http.fake_server import FakeServer, client_of, said


def test_only_what_is_given_is_asked_for():
    server = FakeServer(said(200, AuditList([], 4, True)))
    found = client_of(server).search_audit(principal="alice", allowed=False, offset=3)
    assert found.next_offset == 4
    query = dict(server.requests[0].url.params)
    assert query == {"principal": "alice", "allowed": "false", "offset": "3", "limit": "100"}
