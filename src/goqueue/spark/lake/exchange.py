"""Two folders take each other's place in one step, so that no reader finds neither or both."""

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Final

AT_FDCWD: Final = -100
RENAME_EXCHANGE: Final = 2
NOT_OFFERED: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange(first: Path, second: Path) -> None:
    """Swap two folders of one file system.

    Where the system has no call for it, there is a moment in which `first` does not exist.
    """
    if not _exchange_at_once(first, second):
        aside = second.with_name(second.name + ".aside")
        if first.exists():  # else a crash has stopped just here before
            os.rename(first, aside)
        os.rename(second, first)
        if aside.exists():
            os.rename(aside, second)


def _exchange_at_once(first: Path, second: Path) -> bool:
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in NOT_OFFERED:
        return False
    raise OSError(code, os.strerror(code), str(first))
