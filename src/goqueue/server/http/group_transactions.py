"""Group transactions: engines that commit the work of many producers by one decision."""

from typing import Annotated, Any, Final

import msgspec
from litestar import get, post
from litestar.params import JSONBody, Parameter

from goqueue.model.errors import InvalidRequest
from goqueue.server.http.errors import responses
from goqueue.server.http.given import TheBroker
from goqueue.server.http.notation import INT64_MAX
from goqueue.server.http.transactions import MEMBERS_MAX, Identity, ProducerBody

ApplicationPath = Annotated[
    str, Parameter(description="The application's name, a query id say.", max_length=1_000)
]
Number = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class StartRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: Number | None = None
    """Higher than that of any run before; absent: the next one."""


class RunStarted(msgspec.Struct, frozen=True):
    run: int
    last_version: int
    """The last version that was decided; -1 for none."""


class Decide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Number
    run: Number
    members: Annotated[list[Identity], msgspec.Meta(max_length=MEMBERS_MAX)] = []
    """The transactions to commit: all of them or none."""


class Decided(msgspec.Struct, frozen=True):
    version: int
    already_decided: bool
    """The version was decided before; the members given were a repetition and are aborted."""
    members: list[ProducerBody]
    """Who the members' producers are from now on, in the order given."""


class ApplicationBody(msgspec.Struct, frozen=True):
    application: str
    run: int
    """The newest one; -1 for none."""
    last_version: int
    """The last version that was decided; -1 for none."""


@post(
    "/transactions/groups/{application:str}/runs",
    tags=["group transactions"],
    summary="Start a run of an application and fence the ones before",
    status_code=200,
    responses=responses(409),
)
async def start_run(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[StartRun]
) -> RunStarted:
    known = broker.transactions.machine.applications.find(application)
    run = data.run if data.run is not None else (known.run + 1 if known else 0)
    return RunStarted(run, await broker.transactions.start_run(application, run))


@post(
    "/transactions/groups/{application:str}/decide",
    tags=["group transactions"],
    summary="Commit many transactions by one decision",
    status_code=200,
    responses=responses(404, 409),
)
async def decide(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[Decide]
) -> Decided:
    """The decision is one record: after a crash either all members are committed or none."""
    names = [each.transactional_id for each in data.members]
    if len(set(names)) != len(names):
        raise InvalidRequest("members: a transactional id is there twice")
    members = [(each.transactional_id, each.who) for each in data.members]
    after = await broker.transactions.decide_group(application, data.version, data.run, members)
    return Decided(
        data.version,
        after is None,
        [ProducerBody(each.producer_id, each.epoch) for each in after or ()],
    )


@get(
    "/transactions/groups/{application:str}",
    tags=["group transactions"],
    summary="What was decided last for an application",
    responses=responses(),
)
async def describe_application(broker: TheBroker, application: ApplicationPath) -> ApplicationBody:
    found = broker.transactions.machine.applications.find(application)
    if found is None:
        return ApplicationBody(application, -1, -1)
    return ApplicationBody(application, found.run, found.version)


HANDLERS: Final[list[Any]] = [start_run, decide, describe_application]
