"""Tasks with an owner and an end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def owned_tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group; when one thing alone went wrong in it, that is what is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(set(error.exceptions)) == 1:
            error = error.exceptions[0]  # twice, where the block raised what its task did
        raise error from None
