"""Recurring schedules: create, show, change, pause, run and preview."""

from typing import Annotated

from litestar import Response
from litestar.params import JSONBody, PathParameter

from goqueue.api import schedules as api
from goqueue.broker import Broker
from goqueue.model.times import time_text
from goqueue.schedules import Schedule
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.schedule_bodies import (
    error_body,
    preview_body,
    read_definition,
    read_timing,
    run_body,
    schedule_body,
)

MEANINGS = {
    400: "The request is malformed, or the schedule has mistakes; `details` names all of them.",
    404: "No such schedule or topic.",
    409: "There is one of that name, it has changed meanwhile, or it has had all its runs.",
    422: "The topic is one of the server's own.",
    429: "As many schedules as the server's setting `schedules.count_max` allows, or as many runs"
    " that wait.",
}
routes = Routes("schedules", MEANINGS)

NamePath = Annotated[str, PathParameter(description="Name of a schedule.")]
PreviewCount = Annotated[int, query("How many runs.", ge=1, le=api.PREVIEW_MAX)]


@routes.post("/schedules", "Create a schedule", 404, 409, 422, 429, 507, status_code=201)
async def create_schedule(
    broker: TheBroker, data: JSONBody[api.NewSchedule]
) -> Response[api.ScheduleBody]:
    definition = read_definition(data.name, data)
    found = await broker.schedules.create(definition, is_paused=data.paused)
    return Response(_body(broker, found), headers={"Location": f"schedules/{data.name}"})


@routes.get("/schedules", "List schedules")
async def list_schedules(
    broker: TheBroker,
    limit: Annotated[int, query("Most of them.", ge=1, le=api.PAGE_MAX)] = api.PAGE_DEFAULT,
    after: Annotated[str, query("Only names behind this one.", max_length=249)] = "",
) -> api.ScheduleList:
    """By name."""
    page = await broker.schedules.page(after=after, count=limit + 1)
    found = page.schedules[:limit]
    is_end = len(page.schedules) <= limit
    return api.ScheduleList(
        [_body(broker, each) for each in found],
        page.total,
        None if is_end else found[-1].definition.name,
    )


@routes.post("/schedules/preview", "Show when a schedule would run")
async def preview_schedule(broker: TheBroker, data: JSONBody[api.PreviewInput]) -> api.PreviewBody:
    """Nothing is stored."""
    timing = read_timing(data)
    return preview_body(timing, await broker.schedules.preview(timing, data.count))


@routes.get("/schedules/{name:str}", "Show a schedule", 404)
async def show_schedule(broker: TheBroker, name: NamePath) -> api.ScheduleBody:
    return _body(broker, await broker.schedules.find(name))


@routes.put("/schedules/{name:str}", "Replace a schedule", 404, 409, 422, 429, 507)
async def replace_schedule(
    broker: TheBroker, name: NamePath, data: JSONBody[api.ScheduleInput]
) -> api.ScheduleBody:
    """Its runs, their number and whether it is paused stay."""
    definition = read_definition(name, data)
    return _body(broker, await broker.schedules.replace(definition, data.version))


@routes.delete("/schedules/{name:str}", "Delete a schedule", 404)
async def delete_schedule(broker: TheBroker, name: NamePath) -> api.ScheduleDeleted:
    """A run that is under way may still be published."""
    await broker.schedules.delete(name)
    return api.ScheduleDeleted(name)


@routes.post("/schedules/{name:str}/pause", "Pause a schedule", 404)
async def pause_schedule(broker: TheBroker, name: NamePath) -> api.ScheduleBody:
    return _body(broker, await broker.schedules.pause(name))


@routes.post("/schedules/{name:str}/resume", "Resume a schedule", 404)
async def resume_schedule(broker: TheBroker, name: NamePath) -> api.ScheduleBody:
    """Runs that it missed are made up for as its `missed` says."""
    return _body(broker, await broker.schedules.resume(name))


@routes.post("/schedules/{name:str}/run", "Run a schedule now", 404, 409, 429)
async def run_schedule(broker: TheBroker, name: NamePath) -> api.RunRequestedBody:
    """Beside its other runs, also while it is paused.  Waits some seconds for it."""
    at, run = await broker.schedules.run_now(name)
    return api.RunRequestedBody(
        name,
        time_text(at),
        None if run is None else run_body(run),
        error_body(broker.schedules.publisher.failure(name)),
    )


@routes.get("/schedules/{name:str}/runs", "List the newest runs of a schedule", 404)
async def list_runs(broker: TheBroker, name: NamePath) -> api.RunList:
    found = await broker.schedules.find(name)
    return api.RunList(name, [run_body(each) for each in reversed(found.runs)])


@routes.get("/schedules/{name:str}/preview", "Show the next runs of a schedule", 404)
async def preview_stored_schedule(
    broker: TheBroker, name: NamePath, count: PreviewCount = api.PREVIEW_DEFAULT
) -> api.PreviewBody:
    found = await broker.schedules.find(name)
    runs = await broker.schedules.preview_of(name, count)
    return preview_body(found.definition.timing, runs)


def _body(broker: Broker, found: Schedule) -> api.ScheduleBody:
    return schedule_body(found, broker.schedules.publisher.failure(found.definition.name))
