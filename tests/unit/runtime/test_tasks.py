"""Task groups that raise the one thing that went wrong."""

import asyncio

import pytest

from goqueue.runtime.tasks import owned_tasks


async def fail(problem: str) -> None:
    raise ValueError(problem)


async def fail_in_tasks(*problems: str) -> None:
    async with owned_tasks() as tasks:
        for each in problems:
            tasks.create_task(fail(each))
        await asyncio.sleep(1)


async def raise_what_a_task_raised() -> None:
    async with owned_tasks() as tasks:
        task = tasks.create_task(fail("both"))
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            task.result()


async def test_one_error_is_raised_as_it_is():
    with pytest.raises(ValueError, match="alone"):
        await fail_in_tasks("alone")


async def test_what_a_block_raises_after_its_task_is_the_same_error():
    with pytest.raises(ValueError, match="both"):
        await raise_what_a_task_raised()


async def test_several_errors_are_a_group():
    with pytest.raises(ExceptionGroup):
        await fail_in_tasks("one", "two")
