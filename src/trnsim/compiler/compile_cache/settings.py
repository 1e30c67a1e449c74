"""Settings of the persistent cache, from NEURON_CC_FLAGS and NEURON_COMPILE_CACHE_URL."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from trnsim import disk_cache
from trnsim.compiler.flags import VARIABLE, flag_settings
from trnsim.errors import BadInput, NotModelled
from trnsim.formatting import clipped
from trnsim.version import VERSION

URL_VARIABLE: Final = "NEURON_COMPILE_CACHE_URL"
EXTRACT_VARIABLE: Final = "NEURON_EXTRACT_GRAPHS_ONLY"
_SOURCE: Final = "aws-neuron-sdk about-neuron/arch/neuron-features/neuron-caching.rst"
_DEFAULT: Final = "/var/tmp/neuron-compile-cache"  # noqa: S108  where AWS's is
_DEFAULT_ORIGIN: Final = "the default"
_FILE_ADDRESS: Final = re.compile(
    r"file:(//(localhost)?(?=/)|(?=/(?!/)))/*(?P<path>/.*)", re.IGNORECASE
)
"""An address of a file on this machine, whose path may begin with several slashes.

Source: RFC 8089, appendices B and E.3.2.
"""
_OTHER_ADDRESS: Final = re.compile(r"file:|.*://", re.IGNORECASE)
_VERSION_DIGITS: Final = 8
_SHOWN_CHARS: Final = 100
"""Characters of an address in an error."""
COMPILER_VERSION: Final = "2.27"
"""Version of neuronx-cc whose flags and defaults apply (`trnsim.compiler.flags`)."""


@dataclass(frozen=True)
class CacheSettings:
    """Settings of the persistent cache.

    Attributes:
        folder: its folder; None if --no_cache turns it off.
        retries_failed: True if graphs that failed before are compiled again.
        origin: the variable or flag that names the folder, or "the default".
    """

    folder: Path | None
    retries_failed: bool = False
    origin: str = _DEFAULT_ORIGIN

    @property
    def version_folder(self) -> Path | None:
        """The folder of programs of this compiler."""
        return None if self.folder is None else self.folder / f"neuronxcc-{compiler_version()}"


def compiler_version() -> str:
    """The version of the compiler: that of neuronx-cc, trnsim's, and a digest of its sources.

    A compiled program holds an estimate, which may change with trnsim's sources.
    """
    return f"{COMPILER_VERSION}+trnsim{VERSION}.{disk_cache.version()[:_VERSION_DIGITS]}"


def cache_settings(url: str | None = None) -> CacheSettings:
    """The settings that the environment states; `url` takes precedence over its folder.

    Raises:
        BadInput: for flags that do not exist, and for a folder that is a file or cannot be read.
        NotModelled: for an address in S3.
    """
    flags = {
        flag.name: value for flag, value in flag_settings(os.environ.get(VARIABLE, ""), VARIABLE)
    }
    candidates = (
        (url, "--cache-url"),
        (flags.get("cache-dir"), f"--cache_dir in {VARIABLE}"),
        (os.environ.get(URL_VARIABLE), URL_VARIABLE),
    )
    address, origin = next(
        ((text, where) for text, where in candidates if text), (default_folder(), _DEFAULT_ORIGIN)
    )
    is_off = "no-cache" in flags and url is None
    folder = None if is_off else _folder(address, origin)
    return CacheSettings(folder, "retry-failed-compilation" in flags, origin)


def is_extracting() -> bool:
    """True if graphs are to be stored and not compiled (NEURON_EXTRACT_GRAPHS_ONLY)."""
    return os.environ.get(EXTRACT_VARIABLE, "") not in ("", "0")


def is_cache_named() -> bool:
    """True if the environment names the cache's folder, and does not turn the cache off."""
    if not os.environ.get(URL_VARIABLE) and "cache" not in os.environ.get(VARIABLE, ""):
        return False
    settings = cache_settings()
    return settings.folder is not None and settings.origin != _DEFAULT_ORIGIN


def default_folder() -> str:
    """The folder without any setting."""
    if sys.platform == "win32":
        return str(Path(tempfile.gettempdir()) / "neuron-compile-cache")
    return _DEFAULT


def _expand_home(address: str, origin: str) -> str:
    """An address with the home folder that ``~`` or ``~user`` stands for at its beginning.

    Raises:
        BadInput: no such folder is known.
    """
    if not address.startswith("~"):
        return address
    try:
        return str(Path(address).expanduser())
    except RuntimeError as error:
        raise BadInput(
            f"{origin} is {address!r}, and that user's home folder is not known; legal: a folder",
            fix=f"write the folder's whole path, or ./{address} for a folder of that name",
        ) from error


def _folder(address: str, origin: str) -> Path:
    """The folder that an address names.

    Raises:
        BadInput: it is a file, or an address of another kind.
        NotModelled: it is in S3.
    """
    if address.lower().startswith("s3:"):
        raise NotModelled(
            f"{origin} is {address}: no cache of trnsim is in S3",
            fix="name a folder, and copy it with aws s3 sync",
            source=_SOURCE,
        )
    file_address = _FILE_ADDRESS.fullmatch(address)
    path = unquote(file_address["path"]) if file_address else _expand_home(address, origin)
    if "\0" in path or (not file_address and _OTHER_ADDRESS.match(path)):
        raise BadInput(
            f"{origin} is {address!r}; legal: a folder, or its address file:///FOLDER",
            fix=f"name a folder, such as {default_folder()}",
            source=_SOURCE,
        )
    folder = Path(path).absolute()
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{origin} is {address}, which is a file", fix="name a folder")
    except OSError as error:  # a name that is too long, or a folder that may not be entered
        text = clipped(address, _SHOWN_CHARS)
        raise BadInput(f"{origin} is {text}: {error.strerror}", fix="name a folder") from error
    return folder
