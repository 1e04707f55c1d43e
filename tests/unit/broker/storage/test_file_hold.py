"""Files that somebody copies stay until the copy is made."""

import asyncio

from goqueue.broker.storage.file_hold import FileHold


async def test_files_are_removed_when_nobody_holds_them_any_more():
    hold = FileHold()
    told: list[str] = []

    async def remove(name: str) -> None:
        async with hold.removing():
            told.append(f"{name} begins")
            await asyncio.sleep(0)
            told.append(f"{name} ends")

    first = asyncio.create_task(remove("first"))
    await asyncio.sleep(0)
    async with hold.hold():
        assert told == ["first begins", "first ends"]
        second = asyncio.create_task(remove("second"))
        await asyncio.sleep(0)
        told.append("copied")
    await first
    await second
    assert told[2:] == ["copied", "second begins", "second ends"]
