"""Compatibility levels and modes, of subjects, of contexts and of all."""

from typing import Any

from goqueue.schemas import read_level, read_mode
from goqueue.schemas.errors import InvalidCompatibility
from goqueue.server.http.registry.bodies import SentConfig, SentMode
from goqueue.server.http.registry.calls import Call, add


@add("GET", "/config")
async def show_level(call: Call) -> Any:
    everything = call.everything
    level = await call.schemas.look(lambda machine: machine.level(everything))
    return {"compatibilityLevel": level}


@add("PUT", "/config")
async def set_level(call: Call) -> Any:
    return await _set_level(call, call.everything)


@add("DELETE", "/config")
async def unset_level(call: Call) -> Any:
    return {"compatibilityLevel": await call.schemas.unset_level(call.everything)}


@add("GET", "/config/{subject}")
async def show_level_of_subject(call: Call) -> Any:
    subject, default = call.subject, call.flag("defaultToGlobal")
    level = await call.schemas.look(
        lambda machine: machine.level(subject, default_to_global=default)
    )
    return {"compatibilityLevel": level}


@add("PUT", "/config/{subject}")
async def set_level_of_subject(call: Call) -> Any:
    return await _set_level(call, call.subject)


@add("DELETE", "/config/{subject}")
async def unset_level_of_subject(call: Call) -> Any:
    return {"compatibilityLevel": await call.schemas.unset_level(call.subject)}


async def _set_level(call: Call, subject: str) -> Any:
    sent = call.body(SentConfig)
    sent.check()
    text = sent.compatibility or sent.compatibility_level
    if text is None:
        raise InvalidCompatibility("`compatibility` is missing")
    return {"compatibility": await call.schemas.set_level(subject, read_level(text))}


@add("GET", "/mode")
async def show_mode(call: Call) -> Any:
    everything = call.everything
    return {"mode": await call.schemas.look(lambda machine: machine.mode(everything))}


@add("PUT", "/mode")
async def set_mode(call: Call) -> Any:
    return await _set_mode(call, call.everything)


@add("DELETE", "/mode")
async def unset_mode(call: Call) -> Any:
    return {"mode": await call.schemas.unset_mode(call.everything)}


@add("GET", "/mode/{subject}")
async def show_mode_of_subject(call: Call) -> Any:
    subject, default = call.subject, call.flag("defaultToGlobal")
    mode = await call.schemas.look(lambda machine: machine.mode(subject, default_to_global=default))
    return {"mode": mode}


@add("PUT", "/mode/{subject}")
async def set_mode_of_subject(call: Call) -> Any:
    return await _set_mode(call, call.subject)


@add("DELETE", "/mode/{subject}")
async def unset_mode_of_subject(call: Call) -> Any:
    return {"mode": await call.schemas.unset_mode(call.subject)}


async def _set_mode(call: Call, subject: str) -> Any:
    mode = read_mode(call.body(SentMode).mode)
    return {"mode": await call.schemas.set_mode(subject, mode, force=call.flag("force"))}
