"""Group transactions: engines that commit the work of many producers by one decision."""

from typing import Annotated, Final

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
from goqueue.server.http.routes.family import Routes
from goqueue.server.http.routes.transactions import MEANINGS, who
from goqueue.txn import Attempt

APPLICATION_LENGTH_MAX: Final = 900  # an attempt's transactional id holds it and four numbers

routes = Routes("group transactions", MEANINGS)

ApplicationPath = Annotated[
    str,
    Parameter(
        description="The application's name, a query id say.", max_length=APPLICATION_LENGTH_MAX
    ),
]


@routes.post(
    "/transactions/groups/{application:str}/runs",
    "Start a run of an application and fence the ones before",
    409,
)
async def start_run(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[StartRun]
) -> RunStarted:
    if data.name is not None:
        if data.run is not None:
            raise InvalidRequest("a run has a name or a number, not both")
        begun = await broker.group_transactions.start_named_run(application, data.name)
    else:
        known = broker.transactions.ahead.applications_of(application).find(application)
        run = data.run if data.run is not None else (known.run + 1 if known else 0)
        begun = await broker.group_transactions.start_run(application, run)
    return RunStarted(begun.run, begun.last_version)


@routes.post(
    "/transactions/groups/{application:str}/attempts",
    "Start an attempt at one task of a version",
    409,
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


@routes.post(
    "/transactions/groups/{application:str}/decide",
    "Commit many transactions by one decision",
    404,
    409,
)
async def decide(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[Decide]
) -> Decided:
    """The decision is one record: after a crash either all members are committed or none."""
    names = [each.transactional_id for each in data.members]
    if len(set(names)) != len(names):
        raise InvalidRequest("members: a transactional id is there twice")
    members = [(each.transactional_id, who(each)) for each in data.members]
    ended = await broker.group_transactions.decide(
        application, data.version, data.run, members, data.contents
    )
    return Decided(
        data.version,
        ended.was_decided,
        [ProducerBody(each.producer_id, each.epoch) for each in ended.members],
    )


@routes.post(
    "/transactions/groups/{application:str}/abort", "Abort every attempt at a version", 409
)
async def abort_group(
    broker: TheBroker, application: ApplicationPath, data: JSONBody[AbortGroup]
) -> GroupAborted:
    """Also those of which nobody heard again.  A version that is decided stays so."""
    ended = await broker.group_transactions.abort(application, data.version, data.run)
    return GroupAborted(data.version, ended.was_decided, len(ended.aborted))


@routes.get("/transactions/groups/{application:str}", "What was decided last for an application")
async def describe_application(broker: TheBroker, application: ApplicationPath) -> ApplicationBody:
    async with broker.transactions.barrier_of(application):
        found = broker.transactions.ahead.applications_of(application).find(application)
        if found is None:
            return ApplicationBody(application, -1, -1)
        return ApplicationBody(application, found.run, found.version)


@routes.delete(
    "/transactions/groups/{application:str}", "Forget an application that will not come back", 409
)
async def retire_application(broker: TheBroker, application: ApplicationPath) -> Retired:
    """Refused while attempts are open.  Applications that are silent for long go by themselves."""
    return Retired(application, await broker.group_transactions.retire(application))
