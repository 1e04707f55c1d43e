"""Large buffers that come and go are not given back to the kernel each time."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from goqueue.runtime.heap import keep_freed_memory
if {kept}: assert keep_freed_memory()
def use():
    for _ in range(50):
        taken = [bytearray(1_000_000) for _ in range(4)]
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libcs are left alone")
def test_freed_buffers_are_used_again() -> None:
    assert page_faults(kept=True) < 100 < page_faults(kept=False)


def page_faults(*, kept: bool) -> int:
    program = PROGRAM.format(kept=kept)
    shown = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, check=True, text=True
    )
    return int(shown.stdout)
