"""By which schema values are read: found by the driver, carried to the tasks."""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.errors import ClientError
from goqueue.client.kafka import NO_LOGIN, KafkaLogin
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.subscriptions import Assigned, Topics
from goqueue.spark.source.value_options import Mode, ValueOptions
from goqueue.spark.values.registry import Registry, Subject

if TYPE_CHECKING:
    from goqueue.spark.values.reading import ValueReader

READERS_MAX: Final = 16  # kept in a worker: its next task reads by the same schema
VERSIONS_TRIED_MAX: Final = 20


class NoSchema(ClientError):
    """The registry has no schema to read or write values by."""


class ValuePlan(msgspec.Struct, frozen=True, kw_only=True):
    registry: str
    subject: Subject
    """To read with."""
    latest: Subject | None = None
    """By which values are that name no schema; None: the same."""
    mode: Mode
    corrupt: str
    timeout_ms: int
    login: KafkaLogin = NO_LOGIN

    def reader(self) -> "ValueReader":
        """Raises `NoColumns`."""
        return _reader(msgspec.msgpack.encode(self))


@lru_cache(READERS_MAX)
def _reader(encoded: bytes) -> "ValueReader":
    from goqueue.schemas import Schema
    from goqueue.spark.values.reading import ValueReader

    plan = msgspec.msgpack.decode(encoded, type=ValuePlan)

    def find(schema_id: int) -> Schema | None:
        with Registry(plan.registry, plan.timeout_ms, plan.login) as registry:
            return registry.find_id(schema_id)

    latest = None if plan.latest is None else plan.latest.parse()
    return ValueReader(plan.subject.parse(), find, latest)


def find_plan(options: SourceOptions, values: ValueOptions, wanted: str | None = None) -> ValuePlan:
    """Raises `NoSchema`, `NoColumns`.

    `wanted` is the type of the column as Spark has planned it: if the subject has grown since, the
    version that has this type is read with.
    """
    url = values.registry or _url(options)
    name = values.subject or _subject(options)
    with Registry(url, options.timeout_ms, options.login) as registry:
        found = _present(registry, name, values.version)
        plan = ValuePlan(
            registry=url,
            subject=found,
            latest=None if values.version is None else registry.find(name),
            mode=values.mode,
            corrupt=values.corrupt,
            timeout_ms=options.timeout_ms,
            login=options.login,
        )
        _check_format(values, found)
        if wanted is None or values.version is not None or simple_type(plan) == wanted:
            return plan
        for version in range(found.version - 1, max(0, found.version - VERSIONS_TRIED_MAX), -1):
            older = registry.find(name, version)
            if older is not None:
                before = msgspec.structs.replace(plan, subject=older, latest=found)
                if simple_type(before) == wanted:
                    return before
    return plan


def simple_type(plan: ValuePlan) -> str:
    """The column `value`, as Spark shows its type."""
    from goqueue.spark.values.type_texts import simple

    return simple(plan.reader().type)


def ddl_type(plan: ValuePlan) -> str:
    from goqueue.spark.values.type_texts import ddl

    return ddl(plan.reader().type)


def _present(registry: Registry, name: str, version: int | None) -> Subject:
    found = registry.find(name, version)
    if found is None:
        which = "no schema" if version is None else f"no version {version}"
        raise NoSchema(
            f"subject {name!r} has {which}: goqueue schema register {name} FILE adds one, and the"
            " option value.subject names another subject"
        )
    return found


def _check_format(values: ValueOptions, found: Subject) -> None:
    kind = found.schema.schema_type.lower()
    if values.format not in ("registry", kind):
        raise NoSchema(
            f"value.format is {values.format}, and version {found.version} of {found.name!r} is"
            f" {kind}: say value.format={kind}, or registry for either"
        )


def _url(options: SourceOptions) -> str:
    from goqueue.spark.source.connection import connect

    with connect(options.bootstrap, options.timeout_ms, options.login) as client:
        return client.http_url()


def _subject(options: SourceOptions) -> str:
    topics: set[str] = set()
    match options.subscription:
        case Topics(names):
            topics = set(names)
        case Assigned() as assigned:
            topics = {each.topic for each in assigned.partitions}
        case _:
            pass
    if len(topics) != 1:
        raise NoSchema(
            "values of several topics are read by one schema: name its subject with the option"
            " value.subject"
        )
    return f"{topics.pop()}-value"
