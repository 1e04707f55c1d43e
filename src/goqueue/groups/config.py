"""The bounds and defaults of groups, which are part of the server's configuration."""

from goqueue.model.config import GroupsConfig

__all__ = ["GroupsConfig"]
