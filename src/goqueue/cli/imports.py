"""Libraries load other libraries that this command has no use for, if they are installed."""

import sys


def pretend_missing(name: str) -> None:
    """Let `import name` fail from now on; what is loaded already stays."""
    sys.modules.setdefault(name, None)  # type: ignore[arg-type] # None: "not installed"
