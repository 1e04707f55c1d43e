"""Chunks that wait in a file: places are taken again, and a full disk is no failure."""

from goqueue.broker.delays.chunk_file import ChunkFile
from goqueue.testing.sim.world import World

PATH = "/chunks"


def test_a_place_that_is_free_is_taken_again():
    with World(seed=1) as world:
        disk = world.disk("a")
        chunks = ChunkFile(disk, PATH)
        first, second = chunks.store(b"a" * 32), chunks.store(b"b" * 32)
        assert first is not None
        assert second is not None
        chunks.release(first)
        assert chunks.store(b"c" * 32) == first
        assert (chunks.load(first), chunks.load(second)) == (b"c" * 32, b"b" * 32)
        assert disk.size(PATH) == 64
        chunks.close()


def test_a_new_file_begins_empty():
    with World(seed=1) as world:
        disk = world.disk("a")
        ChunkFile(disk, PATH).store(b"a" * 32)
        assert ChunkFile(disk, PATH).store(b"b" * 32) == 0


def test_without_room_the_chunk_stays_in_memory():
    with World(seed=1) as world:
        disk = world.disk("a")
        chunks = ChunkFile(disk, PATH)
        disk.fill_up()
        assert chunks.store(b"a" * 32) is None
