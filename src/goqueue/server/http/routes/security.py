"""Users, API keys and access control lists; for administrators."""

from typing import Annotated, Any

from litestar import Request
from litestar.params import JSONBody, PathParameter

from goqueue.api.security import (
    AclBody,
    AclChange,
    AclList,
    CreateKey,
    KeyBody,
    KeyCreated,
    KeyDeleted,
    KeyList,
    OperationName,
    PutUser,
    ResourceName,
    UserBody,
    UserDeleted,
    UserList,
)
from goqueue.broker.security.users import User
from goqueue.cluster.metadata import AclsAdded, AclsRemoved
from goqueue.model.times import time_text
from goqueue.security import (
    Acl,
    AclFilter,
    ApiKey,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.security.audited import set_details

routes = Routes(
    "security",
    {404: "No such user, or key.", 409: "It cannot be done now."},
)

AnyRequest = Request[Any, Any, Any]
UserPath = Annotated[str, PathParameter(description="The user's name.", max_length=200)]
KeyPath = Annotated[str, PathParameter(description="The key's id, not the key.", max_length=100)]

# --- users ----------------------------------------------------------------------------------------


@routes.get("/admin/users", "List the users")
async def list_users(broker: TheBroker) -> UserList:
    return UserList([_user(each) for each in broker.users.describe_all()])


@routes.get("/admin/users/{user:str}", "Show a user", 404)
async def get_user(broker: TheBroker, user: UserPath) -> UserBody:
    return _user(broker.users.get(user))


@routes.put("/admin/users/{user:str}", "Make a user, or change its password or roles", 422)
async def put_user(
    broker: TheBroker, request: AnyRequest, user: UserPath, data: JSONBody[PutUser]
) -> UserBody:
    """A new password is asked for at the next login; connections that are there stay."""
    roles = "" if data.roles is None else f"roles {data.roles} "
    set_details(request, roles + ("" if data.password is None else "password set"))
    return _user(await broker.users.put(user, data.password, data.roles))


@routes.delete("/admin/users/{user:str}", "Remove a user's password and roles", 404)
async def delete_user(broker: TheBroker, user: UserPath) -> UserDeleted:
    """Its API keys and ACLs stay, as those of somebody whom a certificate may name."""
    await broker.users.remove(user)
    return UserDeleted(user, True)


def _user(user: User) -> UserBody:
    return UserBody(user.name, list(user.roles), list(user.mechanisms))


# --- API keys -------------------------------------------------------------------------------------


@routes.get("/admin/keys", "List the API keys")
async def list_keys(broker: TheBroker) -> KeyList:
    return KeyList([_key(each) for each in broker.api_keys.describe_all()])


@routes.post("/admin/keys", "Make an API key", 422, status_code=201)
async def create_key(
    broker: TheBroker, request: AnyRequest, data: JSONBody[CreateKey]
) -> KeyCreated:
    text, key = await broker.api_keys.create(
        data.name, data.user or data.name, tuple(data.roles), data.expires_in
    )
    made = _key(key)
    details = f"{made.id} {made.name!r} for {made.user} roles {made.roles}"
    set_details(request, details)
    return KeyCreated(text, made.id, made.name, made.user, made.roles, made.expires_at)


@routes.delete("/admin/keys/{key_id:str}", "Remove an API key", 404)
async def delete_key(broker: TheBroker, key_id: KeyPath) -> KeyDeleted:
    """It is refused from now on."""
    await broker.api_keys.remove(key_id)
    return KeyDeleted(key_id, True)


def _key(key: ApiKey) -> KeyBody:
    return KeyBody(
        key.key_id,
        key.name,
        key.user,
        list(key.roles),
        time_text(key.created_at),
        time_text(key.expires_at) if key.expires_at else None,
        time_text(key.last_used_at) if key.last_used_at else None,
    )


# --- access control lists -------------------------------------------------------------------------


@routes.get("/admin/acls", "List access control entries")
async def list_acls(
    broker: TheBroker,
    principal: Annotated[str | None, query("Only of this one: User:NAME.")] = None,
    resource_type: Annotated[ResourceName | None, query("Only for such resources.")] = None,
    resource_name: Annotated[str | None, query("Only for those that match this name.")] = None,
    operation: Annotated[OperationName | None, query("Only for this operation.")] = None,
) -> AclList:
    wanted = AclFilter(
        resource_type=ResourceType[resource_type.upper()] if resource_type else ResourceType.ANY,
        name=resource_name,
        pattern=Pattern.MATCH if resource_name else Pattern.ANY,
        principal=principal,
        operation=Operation[operation.upper()] if operation else Operation.ANY,
    )
    found = [_acl_body(acl) for acl in broker.metadata.security.acls if wanted.matches(acl)]
    return AclList(found, len(found))


@routes.post("/admin/acls", "Add access control entries", 422)
async def add_acls(broker: TheBroker, request: AnyRequest, data: JSONBody[AclChange]) -> AclList:
    """All of them, or none.  One that is there already is no mistake."""
    acls = tuple(_acl(each) for each in data.acls)
    set_details(request, ", ".join(map(_describe_acl, acls)))
    await broker.change_security([AclsAdded(acls)])
    return AclList(list(data.acls), len(acls))


@routes.delete("/admin/acls", "Remove access control entries", 422)
async def remove_acls(broker: TheBroker, request: AnyRequest, data: JSONBody[AclChange]) -> AclList:
    """Gives those that were there."""
    acls = tuple(_acl(each) for each in data.acls)
    there = [acl for acl in acls if acl in broker.metadata.security.acls]
    set_details(request, ", ".join(map(_describe_acl, there)))
    await broker.change_security([AclsRemoved(acls)])
    return AclList([_acl_body(acl) for acl in there], len(there))


def _acl(body: AclBody) -> Acl:
    return Acl(
        ResourceType[body.resource_type.upper()],
        body.resource_name,
        Pattern[body.pattern.upper()],
        body.principal,
        body.host,
        Operation[body.operation.upper()],
        Permission[body.permission.upper()],
    ).check()


def _describe_acl(acl: Acl) -> str:
    """For the audit log."""
    words = (acl.permission.name, acl.principal, acl.operation.name, acl.pattern.name)
    resource = f"{acl.resource_type.name.lower()}:{acl.name}"
    return f"{' '.join(words)} {resource} from {acl.host}"


def _acl_body(acl: Acl) -> AclBody:
    return AclBody(
        acl.principal,
        acl.operation.name.lower(),  # type: ignore[arg-type] # those that `_acl` takes
        acl.resource_type.name.lower(),  # type: ignore[arg-type]
        acl.name,
        acl.pattern.name.lower(),  # type: ignore[arg-type]
        acl.permission.name.lower(),  # type: ignore[arg-type]
        acl.host,
    )
