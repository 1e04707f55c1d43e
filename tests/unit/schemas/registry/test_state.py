"""What is applied can be looked up, and a snapshot holds all of it."""

from goqueue.schemas import Level, SchemaType
from goqueue.schemas.registry.records import (
    LevelSet,
    RegistryRecord,
    SchemaRegistered,
    VersionsDeleted,
)
from goqueue.schemas.registry.state import RegistryState


def registered(subject: str, version: int, schema_id: int, text: str) -> SchemaRegistered:
    return SchemaRegistered(
        subject,
        version,
        schema_id,
        text,
        f"identity of {text}",
        f"shape of {text}",
        SchemaType.AVRO,
    )


def test_a_snapshot_holds_what_was_applied():
    state = RegistryState()
    records: tuple[RegistryRecord, ...] = (
        registered("a", 1, 1, '"int"'),
        registered("a", 2, 2, '"long"'),
        registered("b", 1, 2, '"long"'),
        VersionsDeleted("a", (1,), permanent=False),
        LevelSet("a", Level.FULL),
    )
    for record in records:
        state.apply(record)
    assert state.subjects() == ["a", "b"]
    assert state.versions("a") == [2]
    assert state.schema(1).schema.schema_type is SchemaType.AVRO
    assert {each.subject for each in state.uses(2)} == {"a", "b"}
    copy = RegistryState()
    for record in state.snapshot():
        copy.apply(record)
    assert list(copy.snapshot()) == list(state.snapshot())
    assert copy.level("a") is Level.FULL
    assert copy.versions("a", deleted=True) == [1, 2]


def test_a_schema_that_no_subject_has_any_more_is_gone():
    state = RegistryState()
    state.apply(registered("a", 1, 1, '"int"'))
    state.apply(registered("b", 1, 1, '"int"'))
    state.apply(VersionsDeleted("a", (1,), permanent=True))
    assert state.schema_count == 1
    state.apply(VersionsDeleted("b", (1,), permanent=True))
    assert state.schema_count == 0
