"""The first user of a server that demands logins: somebody has to be able to make the others."""

import asyncio
from pathlib import Path

import structlog

from goqueue.broker import Broker
from goqueue.model.config import AuthConfig
from goqueue.model.errors import InvalidSetting

_log = structlog.get_logger("goqueue.server")


async def make_first_admin(broker: Broker, config: AuthConfig) -> str | None:
    """If there is no user at all; gives the password, if it was made up: it is nowhere else."""
    if config.init_admin:
        password = await asyncio.to_thread(_read_password, config.init_admin_password_file)
        return await broker.users.ensure_admin(config.init_admin, password)
    if config.enabled and not broker.metadata.security.users and not config.super_users:
        _log.warning("there is no user: nobody can log in (flag --init-admin NAME makes one)")
    return None


def _read_password(path: str) -> str | None:
    if not path:
        return None
    try:
        password = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"auth.init_admin_password_file: {error}") from error
    if not password:
        raise InvalidSetting(f"auth.init_admin_password_file: {path} is empty")
    return password
