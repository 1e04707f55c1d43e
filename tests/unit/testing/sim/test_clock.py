import asyncio

from goqueue.testing.sim import SimClock, SimLoop


def test_both_hands_follow_the_loop():
    loop = SimLoop()
    clock = SimClock(loop, epoch_ms=1_000_000, origin_ns=77)
    loop.run_until_complete(clock.sleep(2.5))
    assert clock.now() == 1_002_500
    assert clock.instant() == 77 + 2_500_000_000
    loop.close()


def test_the_wall_clock_jumps_and_the_other_does_not():
    loop = SimLoop()
    clock = SimClock(loop, epoch_ms=1_000_000)
    clock.jump(-5_000)
    assert clock.now() == 995_000
    assert clock.instant() == 0
    loop.close()


def test_a_fast_clock_sleeps_by_its_own_time():
    loop = SimLoop()
    clock = SimClock(loop, epoch_ms=0)
    loop.run_until_complete(clock.sleep(10))
    clock.drift(100_000)
    before = clock.instant()
    assert before == 10_000_000_000
    loop.run_until_complete(clock.sleep(11))
    assert abs(clock.instant() - before - 11_000_000_000) < 10
    assert abs(loop.time() - 20) < 1e-6
    loop.close()


def test_deadlines_are_met_exactly():
    loop = SimLoop()
    clock = SimClock(loop, drift_ppm=37)

    async def main() -> None:
        for step in range(1, 200):
            deadline = clock.instant() + step * 1_234_567
            await clock.sleep((deadline - clock.instant()) / 1e9)
            assert abs(clock.instant() - deadline) <= 1
            await asyncio.sleep(0.000_001)

    loop.run_until_complete(main())
    loop.close()
