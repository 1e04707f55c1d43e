"""Every request about users, API keys and access control lists."""

from collections.abc import Sequence

from goqueue.api.security import (
    AclBody,
    AclChange,
    AclList,
    KeyBody,
    KeyCreated,
    KeyDeleted,
    KeyList,
    OperationName,
    ResourceName,
    Role,
    UserBody,
    UserDeleted,
    UserList,
)
from goqueue.client.http.calls.call import Call, change, get, path_of, post


def users() -> Call[list[UserBody]]:
    """All users, by name."""
    return get("/admin/users", UserList).then(lambda found: found.users)


def user(name: str) -> Call[UserBody]:
    return get(path_of("admin", "users", name), UserBody)


def put_user(
    name: str, *, password: str | None = None, roles: Sequence[Role] | None = None
) -> Call[UserBody]:
    """Make a user, or change it: what is not given stays as it is."""
    body = {"password": password, "roles": None if roles is None else list(roles)}
    return change("PUT", path_of("admin", "users", name), UserBody, body, is_repeatable=True)


def delete_user(name: str) -> Call[UserDeleted]:
    """Its password and roles; its API keys and ACLs stay."""
    return change("DELETE", path_of("admin", "users", name), UserDeleted)


def api_keys() -> Call[list[KeyBody]]:
    return get("/admin/keys", KeyList).then(lambda found: found.keys)


def create_api_key(
    name: str,
    *,
    user: str | None = None,
    roles: Sequence[Role] = (),
    expires_in_ms: int | None = None,
) -> Call[KeyCreated]:
    """The answer has the key itself: it is shown this once.

    Without `user`, it stands for a user of the key's name.
    """
    body = {"name": name, "user": user, "roles": list(roles), "expires_in": expires_in_ms}
    return post("/admin/keys", KeyCreated, body)


def delete_api_key(key_id: str) -> Call[KeyDeleted]:
    """By its id, not by the key itself."""
    return change("DELETE", path_of("admin", "keys", key_id), KeyDeleted)


def acls(
    *,
    principal: str | None = None,
    resource_type: ResourceName | None = None,
    resource_name: str | None = None,
    operation: OperationName | None = None,
) -> Call[list[AclBody]]:
    """Those that match all that is given."""
    query = {
        "principal": principal,
        "resource_type": resource_type,
        "resource_name": resource_name,
        "operation": operation,
    }
    return get("/admin/acls", AclList, query).then(lambda found: found.acls)


def add_acls(*acls: AclBody) -> Call[list[AclBody]]:
    """All of them, or none."""
    call = post("/admin/acls", AclList, AclChange(list(acls)), is_repeatable=True)
    return call.then(lambda found: found.acls)


def remove_acls(*acls: AclBody) -> Call[list[AclBody]]:
    """Gives those that were there."""
    call = change("DELETE", "/admin/acls", AclList, AclChange(list(acls)))
    return call.then(lambda found: found.acls)
