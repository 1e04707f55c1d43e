"""The wire library without what it loads only because it is there.

kio teaches hypothesis its types wherever that is installed, as it is wherever people test.  That
costs every process half a second, and two where hypothesis has not written its tables yet: in
each working directory, so in that of every Spark executor.
"""

import sys
from typing import Final

LOADED_BESIDE: Final = "hypothesis"


def load_kio() -> None:
    """Before anybody imports it; who uses hypothesis still can, before and after."""
    if LOADED_BESIDE in sys.modules:
        return
    sys.modules[LOADED_BESIDE] = None  # type: ignore[assignment] # None: "not installed"
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules[LOADED_BESIDE]
