"""Litestar still resolves dependencies in batches, and asks its routes for them."""

import asyncio

from litestar import Litestar, get
from litestar.di import NamedDependency, Provide
from litestar.testing import TestClient

from goqueue.server.http.asgi.dependency_order import resolve_in_turn


def test_dependencies_are_resolved_in_the_task_of_the_request():
    """It is seen failing without `resolve_in_turn`: each is then resolved in a task of its own."""
    tasks: list[asyncio.Task[object] | None] = []

    async def note() -> int:
        tasks.append(asyncio.current_task())
        return len(tasks)

    async def note_again() -> int:
        return await note()

    @get("/")
    async def handler(one: NamedDependency[int], other: NamedDependency[int]) -> int:
        tasks.append(asyncio.current_task())
        return one + other

    def served_in() -> int:
        tasks.clear()
        assert client.get("/").json() == 3
        return len(set(tasks))

    app = Litestar([handler], dependencies={"one": Provide(note), "other": Provide(note_again)})
    with TestClient(app) as client:
        assert served_in() > 1
        resolve_in_turn(app)
        assert served_in() == 1
