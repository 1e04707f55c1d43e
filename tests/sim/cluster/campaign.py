"""Tells many stories of simulated clusters, and lists the seeds of those that end badly.

    python -m tests.sim.cluster.campaign --first 0 --schedules 10000

A campaign can be divided over nights and machines by its first seed.  Every story that fails is
named with the command that repeats it.
"""

import argparse
import os
import sys
import time
import traceback

from tests.sim.cluster.story import Story

TRACES_MAX = 5  # that are shown whole
LINE_SECONDS = 30.0
HASH_SEED = "0"


def main() -> int:
    options = _parse()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # the order of sets is part of a schedule
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": HASH_SEED})
    failed: list[int] = []
    began, cpu_began, said_at = time.monotonic(), time.process_time(), time.monotonic()
    seeds = range(options.first, options.first + options.schedules)
    for count, seed in enumerate(seeds, 1):
        problem = _tell(seed)
        if problem is not None:
            failed.append(seed)
            _show(seed, problem, whole=len(failed) <= TRACES_MAX)
        is_last = count == options.schedules
        if is_last or time.monotonic() - said_at > LINE_SECONDS:
            said_at = time.monotonic()
            cpu_minutes = (time.process_time() - cpu_began) / 60
            print(
                f"{count} of {options.schedules} schedules, seed {seed}: {len(failed)} failed,"
                f" {count / max(cpu_minutes, 1e-9):.0f} a CPU minute,"
                f" {(said_at - began) / 60:.1f} minutes",
                flush=True,
            )
    for seed in failed:
        print(f"failed: seed {seed}; {_command(seed)} repeats it")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, default=100, help="how many seeds")
    return parser.parse_args()


def _tell(seed: int) -> BaseException | None:
    try:
        Story(seed).tell()
    except Exception as error:
        return error
    return None


def _show(seed: int, problem: BaseException, *, whole: bool) -> None:
    if whole:
        traceback.print_exception(problem)
    print(f"seed {seed} failed: {_first_line(problem)}\n  {_command(seed)}", flush=True)


def _first_line(problem: BaseException) -> str:
    lines = str(problem).splitlines() or [""]
    return f"{type(problem).__name__}: {lines[0]}"


def _command(seed: int) -> str:
    return f"make sim-cluster FIRST={seed} SCHEDULES=1"


if __name__ == "__main__":
    sys.exit(main())
