import asyncio

from prometheus_client import CollectorRegistry

from goqueue.server import loop_lag
from goqueue.server.loop_lag import LoopLag


async def test_a_blocked_event_loop_is_seen(monkeypatch):
    monkeypatch.setattr(loop_lag, "INTERVAL_SECONDS", 0.01)
    registry, loop = CollectorRegistry(), asyncio.get_running_loop()
    task = asyncio.ensure_future(LoopLag(registry).run())
    await asyncio.sleep(0)  # it has set its timer
    blocked = loop.time() + 0.15
    while loop.time() < blocked:
        pass
    for _ in range(1_000):
        if registry.get_sample_value("goqueue_event_loop_lag_seconds_count"):
            break
        await asyncio.sleep(0)
    task.cancel()
    total = registry.get_sample_value("goqueue_event_loop_lag_seconds_sum")
    assert total is not None
    assert total > 0.1
