"""`goqueue server --nodes 3`: several nodes on one machine, started and watched as one command."""

from typing import Final

NODES_MAX: Final = 32
