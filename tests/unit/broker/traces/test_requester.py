import asyncio

from goqueue.broker.traces.requester import Requester, requester


def test_a_task_has_its_own_and_hands_it_on():
    async def ask(client: str) -> str:
        requester.set(Requester("10.0.0.1:1", client))
        await asyncio.sleep(0)
        async with asyncio.TaskGroup() as tasks:
            started = tasks.create_task(look())
        return started.result()

    async def look() -> str:
        found = requester.get()
        return "" if found is None else found.client

    async def main() -> list[str]:
        return [*await asyncio.gather(ask("a"), ask("b")), await look()]

    assert asyncio.run(main()) == ["a", "b", ""]
