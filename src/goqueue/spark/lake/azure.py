"""How PyArrow reaches Azure: by the variables that delta-rs and obstore read, too.

    AZURE_STORAGE_ACCOUNT_KEY       the account's key
    AZURE_STORAGE_SAS_TOKEN         or a signature that somebody gave away
    AZURE_STORAGE_USE_EMULATOR      `true`: Azurite, at AZURITE_BLOB_STORAGE_URL

Without one of them PyArrow looks for an identity: `az login`, AZURE_CLIENT_ID and its relatives, a
machine's own.
"""

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow.fs

KEYS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
SIGNATURES: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
EMULATOR: Final = "AZURE_STORAGE_USE_EMULATOR"
EMULATOR_URL: Final = "AZURITE_BLOB_STORAGE_URL"
EMULATOR_PLACE: Final = "http://127.0.0.1:10000"
EMULATOR_KEY: Final = (  # Azurite's own, which its documentation tells everybody
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def is_emulated(environment: Mapping[str, str] = os.environ) -> bool:
    return environment.get(EMULATOR, "").lower() in ("1", "true")


def azure_options(environment: Mapping[str, str]) -> dict[str, str]:
    """How to log in, and where, unless that is by an identity at Azure itself."""
    key = next((environment[each] for each in KEYS if environment.get(each)), None)
    signature = next((environment[each] for each in SIGNATURES if environment.get(each)), None)
    found: dict[str, str] = {}
    if is_emulated(environment):
        place = urlsplit(environment.get(EMULATOR_URL) or EMULATOR_PLACE)
        for kind in ("blob", "dfs"):
            found[f"{kind}_storage_authority"] = place.netloc
            found[f"{kind}_storage_scheme"] = place.scheme
        key = key or EMULATOR_KEY
    if key is not None:
        found["account_key"] = key
    elif signature is not None:
        found["sas_token"] = signature
    return found


def azure_place(root: str, environment: Mapping[str, str] = os.environ) -> tuple[Any, str] | None:
    """The filesystem and the path of `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`.

    None: PyArrow finds all of it by itself.
    """
    options = azure_options(environment)
    parts = urlsplit(root)
    if not options or parts.username is None or parts.hostname is None:
        return None
    account = parts.hostname.partition(".")[0]
    filesystem = pyarrow.fs.AzureFileSystem(account_name=account, **options)
    return filesystem, f"{parts.username}{parts.path}"
