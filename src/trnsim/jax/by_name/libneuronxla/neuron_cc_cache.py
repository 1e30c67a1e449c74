"""`libneuronxla.neuron_cc_cache`: the persistent cache, by the names of AWS's classes.

Its entries are the entries of `trnsim.compiler.compile_cache`; a cache in S3 is refused by name.

Source: huggingface/optimum-neuron optimum/neuron/cache/hub_cache.py and AGENTS.md, libneuronxla
APIs, which subclass and call them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Final, NoReturn

from trnsim.compiler.compile_cache import (
    CacheEntry,
    CacheSettings,
    EntryState,
    cache_settings,
    entries,
)
from trnsim.compiler.compile_cache.entry import CacheKey
from trnsim.compiler.compile_cache.lock import held_lock
from trnsim.compiler.compile_cache.settings import default_folder
from trnsim.compiler.flags import flag_settings
from trnsim.errors import BadInput, NotModelled
from trnsim.files import read_bytes, write

__all__ = ["CacheUrl", "CompileCache", "CompileCacheFs", "CompileCacheS3", "create_compile_cache"]

_S3: Final = "s3"
_FS: Final = "fs"
_TEXT_MOST: Final = 1 << 30
_REPLACEMENT: Final = "name a folder, and copy it with aws s3 sync"


class CacheUrl:
    """The address of a cache: a folder, or in S3."""

    def __init__(self, cache_path: str, url_type: str = _FS) -> None:
        self.cache_path = str(cache_path)
        self.url_type = url_type

    @classmethod
    def get_cache_url(cls, cache_dir: str | None = None) -> CacheUrl:
        """The address `cache_dir`, or else the environment's address, or else the default."""
        if cache_dir is not None and str(cache_dir).startswith(f"{_S3}:"):
            return cls(cache_dir, _S3)
        folder = cache_settings(None if cache_dir is None else str(cache_dir)).folder
        return cls(str(folder or default_folder()))

    def is_s3(self) -> bool:
        """True if it is in S3."""
        return self.url_type == _S3

    def __repr__(self) -> str:
        return f"CacheUrl({self.cache_path!r}, url_type={self.url_type!r})"


class CompileCache:
    """A cache, by its address: the base of caches that others write."""

    cache_type: ClassVar[str] = ""

    def __init__(self, cache_url: CacheUrl) -> None:
        self.cache_url = cache_url
        self.cache_path = cache_url.cache_path


class CompileCacheFs(CompileCache):
    """A cache in a folder. Paths are texts, as its callers have them."""

    cache_type: ClassVar[str] = _FS

    def __init__(self, cache_url: CacheUrl) -> None:
        super().__init__(cache_url)
        self._settings = CacheSettings(Path(self.cache_path), origin="CacheUrl")
        self._locks: dict[str, AbstractContextManager[bool]] = {}

    @property
    def _version_folder(self) -> Path:
        folder = self._settings.version_folder
        assert folder is not None  # noqa: S101  its settings name one
        return folder

    def get_cache_dir(self, model_hash: str, compile_flags_str: str | Sequence[str]) -> str:
        """The folder of a graph's hash and flags."""
        words = [
            f"--{flag.name}={value}" if value else f"--{flag.name}"
            for flag, value in flag_settings(compile_flags_str, "compile_flags_str")
        ]
        return str(self._version_folder / CacheKey.from_hash(str(model_hash), words).folder_name)

    def get_cache_dir_with_cache_key(self, cache_key: str) -> str:
        """The folder of a key, in the folder of this compiler's version.

        Raises:
            BadInput: the key leads elsewhere.
        """
        path = self._version_folder / cache_key
        if ".." in path.parts or not path.is_relative_to(self._version_folder):
            raise BadInput(f"cache_key={cache_key!r} leads out of the cache", fix="name a folder")
        return str(path)

    def get_hlos(
        self, failed_neff_str: str = ""
    ) -> tuple[list[str], list[str], list[str], list[str]]:
        """Cached graphs by state: waiting, locked, compiled, and failed."""
        del failed_neff_str
        by_state: dict[EntryState, list[str]] = {state: [] for state in EntryState}
        locked_keys: list[str] = []
        for entry in entries(self._version_folder):
            graph = str(entry.graph_file)
            (locked_keys if entry.is_locked else by_state[entry.state]).append(graph)
        return (
            by_state[EntryState.GRAPH],
            locked_keys,
            by_state[EntryState.DONE],
            by_state[EntryState.FAILED],
        )

    def hlo_acquire_lock(self, h: str) -> bool:
        """Take the lock of a graph's folder; False if another process has it.

        Raises:
            BadInput: there is no such folder, or it cannot be written.
        """
        entry = CacheEntry(Path(h).parent)
        lock = held_lock(entry.lock_file, is_waiting=False)
        try:
            is_held = lock.__enter__()
        except OSError as error:
            raise BadInput(
                f"cannot lock {entry.folder}: {error.strerror}; legal: the path of a graph in a "
                "folder that exists and may be written",
                fix="make the folder of get_cache_dir first",
            ) from error
        if not is_held:
            lock.__exit__(None, None, None)
            return False
        self._locks[str(h)] = lock
        return True

    def hlo_release_lock(self, h: str) -> None:
        """Give the lock of a graph's folder back."""
        lock = self._locks.pop(str(h), None)
        if lock is not None:
            lock.__exit__(None, None, None)

    def clear_locks(self) -> None:
        """Remove lock files that no process holds."""
        for entry in entries(self._version_folder):
            if not entry.is_locked:
                entry.lock_file.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove the programs of this compiler's version."""
        for entry in entries(self._version_folder):
            if not entry.is_locked:
                shutil.rmtree(entry.folder, ignore_errors=True)

    def exists(self, path: str) -> bool:
        """True if there is a file or a folder."""
        return Path(path).exists()

    def remove(self, path: str) -> None:
        """Remove a file of the cache.

        Raises:
            BadInput: it lies elsewhere.
        """
        folder, plain_path = Path(self.cache_path).resolve(), Path(path)
        file = plain_path.parent.resolve() / plain_path.name  # a link itself, not what it names
        if plain_path.name == ".." or not file.is_relative_to(folder) or file == folder:
            raise BadInput(
                f"{path} does not lie in the cache {self.cache_path}",
                fix="name a file of the cache, or remove that one by yourself",
            )
        file.unlink(missing_ok=True)

    def download_file(self, filename: str, dst_path: str) -> None:
        """Copy a file out of the cache."""
        write(dst_path, read_bytes(filename), parents=True)

    def download_folder(self, folder_path: str, dst_path: str) -> bool:
        """Copy a folder out of the cache; False if there is none.

        Raises:
            BadInput: it cannot be copied.
        """
        if not Path(folder_path).is_dir():
            return False
        if Path(folder_path).absolute() != Path(dst_path).absolute():
            _copy_folder(folder_path, dst_path)
        return True

    def download_file_to_string(self, filename: str, limit: int | None = None) -> str:
        """The text of a file of the cache, at most `limit` characters."""
        text = read_bytes(filename).decode(errors="replace")
        return text[: _TEXT_MOST if limit is None else limit]

    def upload_file(self, cache_path: str, src_path: str) -> None:
        """Copy a file into the cache."""
        write(cache_path, read_bytes(src_path), parents=True)

    def upload_folder(self, cache_dir: str, src_dir: str) -> None:
        """Copy a folder into the cache.

        Raises:
            BadInput: there is no such folder, or it cannot be copied.
        """
        if not Path(src_dir).is_dir():
            raise BadInput(f"{src_dir} is no folder", fix="name a folder that exists")
        _copy_folder(src_dir, cache_dir)

    def upload_string_to_file(self, cache_path: str, data: str) -> None:
        """Write a text into the cache."""
        write(cache_path, data.encode(), parents=True)


def _copy_folder(source: str, target: str) -> None:
    """Copy a folder, into `target` where that exists.

    Raises:
        BadInput: a file cannot be read or written.
    """
    try:
        shutil.copytree(source, target, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise BadInput(
            f"cannot copy {source} to {target}: {error}",
            fix="name a folder that exists or may be made, and that you may write to",
        ) from error


class CompileCacheS3(CompileCache):
    """A cache in S3: there is none here, and the class is for programs that ask `isinstance`."""

    cache_type: ClassVar[str] = _S3

    def __init__(self, cache_url: CacheUrl) -> NoReturn:
        raise NotModelled(
            f"{cache_url.cache_path}: no cache of trnsim is in S3",
            fix=_REPLACEMENT,
            source="aws-neuron-sdk about-neuron/arch/neuron-features/neuron-caching.rst",
        )


def create_compile_cache(cache_url: CacheUrl) -> CompileCache:
    """The cache of an address.

    Raises:
        NotModelled: it is in S3.
    """
    return CompileCacheS3(cache_url) if cache_url.is_s3() else CompileCacheFs(cache_url)
