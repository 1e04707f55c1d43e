"""Requests about users, keys and access control lists."""

import msgspec

from goqueue.api.security import (
    AclBody,
    AclList,
    KeyCreated,
    KeyList,
    UserBody,
    UserDeleted,
    UserList,
)
from tests.unit.client.http.fake_server import FakeServer, client_of, said

ACL = AclBody("User:bob", "read", "topic", "orders")


def test_users_are_changed_in_part():
    bob = UserBody("bob", [], [])
    server = FakeServer(
        said(200, bob),
        said(200, bob),
        said(200, UserList([bob])),
        said(200, UserDeleted("a/b", True)),
    )
    client = client_of(server)
    client.put_user("bob", password="pw")
    client.put_user("bob", roles=[])
    assert client.users() == [bob]
    client.delete_user("a/b")
    bodies = [msgspec.json.decode(each.content) for each in server.requests[:2]]
    assert bodies == [{"password": "pw"}, {"roles": []}]
    assert server.requests[3].url.raw_path == b"/admin/users/a%2Fb"


def test_a_key_is_not_made_twice():
    made = KeyCreated("gq_1", "key_1", "ci", "ci", [], None)
    server = FakeServer(said(201, made), said(200, KeyList([])))
    client = client_of(server)
    assert client.create_api_key("ci", expires_in_ms=1).key == "gq_1"
    assert client.api_keys() == []
    body = msgspec.json.decode(server.requests[0].content)
    assert body == {"name": "ci", "roles": [], "expires_in": 1}


def test_entries_are_added_listed_and_removed():
    server = FakeServer(said(200, AclList([ACL], 1)))
    client = client_of(server)
    assert client.add_acls(ACL) == client.remove_acls(ACL) == [ACL]
    assert client.acls(principal="User:bob", resource_type="topic") == [ACL]
    methods = [each.method for each in server.requests]
    assert methods == ["POST", "DELETE", "GET"]
    assert dict(server.requests[2].url.params) == {
        "principal": "User:bob",
        "resource_type": "topic",
    }
