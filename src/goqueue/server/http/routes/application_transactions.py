"""Group transactions: engines that commit the work of many producers by one decision."""

from typing import Annotated, Any, Final

from litestar import delete, get, post
from litestar.params import JSONBody, Parameter

from goqueue.api.transactions import (
    AbortGroup,
    ApplicationBody,
    AttemptStarted,
    Decide,
    Decided,
    GroupAborted,
    ProducerBody,
    Retired,
    RunStarted,
    StartAttempt,
    StartRun,
)
from goqueue.model.errors import InvalidRequest
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.errors import responses
from goqueue.server.http.routes.transactions import who
from goqueue.txn import Attempt

APPLICATION_LENGTH_MAX: Final = 900  # an attempt's transactional id holds it and four numbers

ApplicationPath = Annotated[
    str,
    Parameter(
        description="The application's name, a query id say.", max_length=APPLICATION_LENGTH_MAX
    ),
]


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
    if data.name is not None:
        if data.run is not None:
            raise InvalidRequest("a run has a name or a number, not both")
        begun = await broker.group_transactions.start_named_run(application, data.name)
    else:
        known = broker.transactions.machine.applications.find(application)
        run = data.run if data.run is not None else (known.run + 1 if known else 0)
        begun = await broker.group_transactions.start_run(application, run)
    return RunStarted(begun.run, begun.last_version)


@post(
    "/transactions/groups/{application:str}/attempts",
    tags=["group transactions"],
    summary="Start an attempt at one task of a version",
    status_code=200,
    responses=responses(409),
)
async def start_attempt(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[StartAttempt]
) -> AttemptStarted:
    """Write with the producer given, by Kafka's Produce or by `/transactions/publish`.

    Partitions need not be added.  What is written becomes visible when `decide` names it.
    """
    started = await broker.group_transactions.start_attempt(
        Attempt(application, data.run, data.version),
        task=data.task,
        number=data.attempt,
        timeout_ms=data.timeout_ms,
    )
    if started is None:
        return AttemptStarted(already_decided=True)
    transactional_id, who = started
    return AttemptStarted(False, transactional_id, who.producer_id, who.epoch)


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
    members = [(each.transactional_id, who(each)) for each in data.members]
    ended = await broker.group_transactions.decide(application, data.version, data.run, members)
    return Decided(
        data.version,
        ended.was_decided,
        [ProducerBody(each.producer_id, each.epoch) for each in ended.members],
    )


@post(
    "/transactions/groups/{application:str}/abort",
    tags=["group transactions"],
    summary="Abort every attempt at a version",
    status_code=200,
    responses=responses(409),
)
async def abort_group(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[AbortGroup]
) -> GroupAborted:
    """Also those of which nobody heard again.  A version that is decided stays so."""
    ended = await broker.group_transactions.abort(application, data.version, data.run)
    return GroupAborted(data.version, ended.was_decided, len(ended.aborted))


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


@delete(
    "/transactions/groups/{application:str}",
    tags=["group transactions"],
    summary="Forget an application that will not come back",
    status_code=200,
    responses=responses(409),
)
async def retire_application(broker: TheBroker, application: ApplicationPath) -> Retired:
    """Refused while attempts are open.  Applications that are silent for long go by themselves."""
    return Retired(application, await broker.group_transactions.retire(application))


HANDLERS: Final[list[Any]] = [
    start_run,
    start_attempt,
    decide,
    abort_group,
    describe_application,
    retire_application,
]
