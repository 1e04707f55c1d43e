"""Who may do what: denials first, prefixes, roles, what implies what; beside a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import InvalidRequest
from goqueue.security import (
    ANY_USER,
    OPERATIONS,
    Acl,
    AclFilter,
    Authorizer,
    Operation,
    Pattern,
    Permission,
    Principal,
    ResourceType,
    check_roles,
)

ALICE, BOB = Principal("alice"), Principal("bob")
HOST = "10.0.0.1"
TOPIC = ResourceType.TOPIC


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    *,
    principal: str = "User:alice",
    pattern: Pattern = Pattern.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> Acl:
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl) -> Authorizer:
    made = Authorizer(["User:root"])
    for each in acls:
        made.add(each)
    return made


def test_nothing_is_allowed_that_is_not_said() -> None:
    made = authorizer(acl())
    assert made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert not made.allows(ALICE, HOST, Operation.WRITE, TOPIC, "orders")
    assert not made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders2")
    assert not made.allows(BOB, HOST, Operation.READ, TOPIC, "orders")
    assert not made.allows(ALICE, HOST, Operation.READ, ResourceType.GROUP, "orders")
    assert made.allows(Principal("root"), HOST, Operation.ALTER, TOPIC, "anything")


def test_a_denial_goes_before_everything_but_administrators() -> None:
    deny = acl("orders.secret", principal=ANY_USER, permission=Permission.DENY)
    made = authorizer(acl("orders.", pattern=Pattern.PREFIXED), deny)
    made.set_roles("bob", ("consumer",))
    made.set_roles("carol", ("admin",))
    for principal in (ALICE, BOB):
        assert made.allows(principal, HOST, Operation.READ, TOPIC, "orders.eu")
        assert not made.allows(principal, HOST, Operation.READ, TOPIC, "orders.secret")
    assert made.allows(Principal("carol"), HOST, Operation.READ, TOPIC, "orders.secret")
    # A denial of READ does not deny to know of it.
    assert made.allows(ALICE, HOST, Operation.DESCRIBE, TOPIC, "orders.secret")


def test_a_host_that_is_named() -> None:
    made = authorizer(acl(host="10.0.0.1"))
    assert made.allows(ALICE, "10.0.0.1", Operation.READ, TOPIC, "orders")
    assert not made.allows(ALICE, "10.0.0.2", Operation.READ, TOPIC, "orders")


def test_what_is_asked_again_follows_what_changes() -> None:
    made = authorizer()
    assert not made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    made.add(acl())
    assert made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    made.remove(acl())
    assert not made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    made.set_roles("alice", ("consumer",))
    assert made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    made.set_roles("alice", ())
    assert not made.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")


def test_roles_of_a_key_are_its_own() -> None:
    made = authorizer()
    assert made.allows(Principal("k", ("producer",)), HOST, Operation.WRITE, TOPIC, "t")
    assert not made.allows(Principal("k"), HOST, Operation.WRITE, TOPIC, "t")


def test_any_resource() -> None:
    made = authorizer(acl("a.", pattern=Pattern.PREFIXED, operation=Operation.WRITE))
    assert made.allows_any(ALICE, HOST, Operation.WRITE, TOPIC)
    assert made.allows_any(ALICE, HOST, Operation.DESCRIBE, TOPIC)
    assert not made.allows_any(ALICE, HOST, Operation.READ, TOPIC)
    assert not made.allows_any(BOB, HOST, Operation.WRITE, TOPIC)
    assert made.allows_any(Principal("root"), HOST, Operation.WRITE, TOPIC)


def test_what_is_denied_is_not_any_resource() -> None:
    deny, write = Permission.DENY, Operation.WRITE
    for denial in ("*", "a.b"):
        made = authorizer(acl("a.b", write), acl(denial, write, permission=deny))
        assert not made.allows_any(ALICE, HOST, write, TOPIC), denial
    prefixed = Pattern.PREFIXED
    made = authorizer(acl("a.b", write), acl("a.", write, permission=deny, pattern=prefixed))
    assert not made.allows_any(ALICE, HOST, write, TOPIC)
    made = authorizer(acl("a.", write, pattern=prefixed), acl("a.b", write, permission=deny))
    assert made.allows_any(ALICE, HOST, write, TOPIC)
    made = authorizer(acl("*", Operation.ALL, permission=deny))
    made.set_roles("alice", ("producer",))
    assert not made.allows_any(ALICE, HOST, write, TOPIC)


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b"])
ACLS = st.builds(
    Acl,
    st.just(TOPIC),
    NAMES,
    st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", ANY_USER]),
    st.sampled_from(["*", HOST, "other"]),
    st.sampled_from([Operation.ALL, *sorted(OPERATIONS[TOPIC])]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def model(acls: list[Acl], name: str, operation: Operation) -> bool:
    """As Kafka's documentation has it, slowly, for alice."""
    matching = [
        each
        for each in acls
        if each.principal in ("User:alice", ANY_USER)
        and each.host in ("*", HOST)
        and (
            each.name in (name, "*")
            if each.pattern is Pattern.LITERAL
            else name.startswith(each.name)
        )
    ]
    denied = [e for e in matching if e.permission is Permission.DENY]
    allowed = [e for e in matching if e.permission is Permission.ALLOW]
    wanted = {operation, Operation.ALL}
    if any(each.operation in wanted for each in denied):
        return False
    return any(each.operation in wanted | IMPLIED.get(operation, set()) for each in allowed)


@given(st.lists(ACLS, max_size=8), st.sampled_from(["a", "ab", "abc", "c"]))
def test_beside_a_model(acls: list[Acl], name: str) -> None:
    made = authorizer(*acls)
    for operation in sorted(OPERATIONS[TOPIC]):
        for _ in range(2):  # also from the cache
            assert made.allows(ALICE, HOST, operation, TOPIC, name) == model(acls, name, operation)


@given(st.lists(ACLS, max_size=8), st.sampled_from(["a", "ab", "b"]))
def test_a_filter_that_matches_finds_what_decides(acls: list[Acl], name: str) -> None:
    found = {each for each in acls if AclFilter(TOPIC, name, Pattern.MATCH).matches(each)}
    assert found == {
        each
        for each in acls
        if (
            name.startswith(each.name)
            if each.pattern is Pattern.PREFIXED
            else each.name in (name, "*")
        )
    }
    assert {each for each in acls if AclFilter().matches(each)} == set(acls)


@pytest.mark.parametrize(
    "bad",
    [
        acl(name=""),
        acl(name="x" * 300),
        acl(operation=Operation.IDEMPOTENT_WRITE),
        acl(operation=Operation.ANY),
        acl(principal="alice"),
        acl(principal="Group:x"),
        acl(principal="User:"),
        acl(host=""),
        acl(pattern=Pattern.MATCH),
        acl(permission=Permission.ANY),
        Acl(
            ResourceType.CLUSTER,
            "mine",
            Pattern.LITERAL,
            "User:a",
            "*",
            Operation.ALTER,
            Permission.ALLOW,
        ),
        Acl(ResourceType.ANY, "x", Pattern.LITERAL, "User:a", "*", Operation.ALL, Permission.ALLOW),
    ],
)
def test_acls_that_are_not_kept(bad: Acl) -> None:
    with pytest.raises(InvalidRequest):
        bad.check()


def test_roles_that_are_not_there() -> None:
    assert check_roles(("consumer", "admin", "consumer")) == ("admin", "consumer")
    with pytest.raises(InvalidRequest, match="choose of admin"):
        check_roles(("root",))
