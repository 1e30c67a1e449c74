"""The file of baselines: the time of each kernel when it was last accepted.

It is a TOML file that is committed with the kernels. It has a table for each kernel, sorted by
name, so that changes of two kernels merge. Constants of the model stand once, under their digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from trnsim import files, reader
from trnsim.gate.kernel_time import (
    Constants,
    DrawnConstant,
    KernelLineTime,
    KernelTime,
    constants_id,
    in_file_order,
)
from trnsim.reader import FileRecord, declared

FILE: Final = "trn-baselines.toml"
"""The file's usual name."""
_VERSION: Final = 1
_FIX: Final = (
    "restore it, or delete it and write it again: pytest --trn-update, or trnsim check --update"
)
_ON: Final = " on "
_DRAWS_PER_LINE: Final = 10
_CONFLICT_MARKS: Final = ("<<<<<<< ", "=======", ">>>>>>> ", "||||||| ")
_HEAD: Final = """\
# The times of kernels when they were accepted: pytest --trn-update, or trnsim check --update.
# Commit this file. In a merge conflict keep either side of a table, then update.
"""


class Key(NamedTuple):
    """The name of a baseline.

    Attributes:
        owner: the test that calls the kernel, or the kernel's file.
        kernel: the kernel; the second call of it in a test is numbered: softmax#2.
    """

    owner: str
    kernel: str
    chip: str

    def __str__(self) -> str:
        return f"{self.owner} {self.kernel}{_ON}{self.chip}"

    @classmethod
    def of(cls, text: str) -> Key:
        """The key that a text stands for.

        Raises:
            ValueError: the text is no key.
        """
        owner_and_kernel, separator, chip = text.rpartition(_ON)
        owner, _, kernel = owner_and_kernel.rpartition(" ")
        if not (separator and owner and kernel and chip):
            raise ValueError(f"{text!r} is not OWNER KERNEL on CHIP")
        return cls(owner, kernel, chip)


@dataclass(frozen=True, kw_only=True)
class _LineRow(FileRecord):
    file: str = declared(help="file of the line")
    number: int = declared(help="its number", minimum=1, alias=("line",))
    critical_us: float = declared(help="its part of the critical path", unit="us", minimum=0)
    busy_us: float = declared(help="the busy time of its engines", unit="us", minimum=0)
    text: str = declared("", help="its text")


@dataclass(frozen=True, kw_only=True)
class _KernelRow(FileRecord):
    trnsim: str = declared(help="version of trnsim, and digest of its model")
    constants: str = declared(help="digest of the constants")
    source: str = declared(help="digest of the kernel's source")
    inputs: str = declared("", help="the kernel's arguments")
    time_us: float = declared(help="its time", unit="us", exclusive_minimum=0)
    draws_us: tuple[float, ...] = declared(
        help="its time in each draw", unit="us", exclusive_minimum=0
    )
    lines: tuple[_LineRow, ...] = declared((), help="its lines")


@dataclass(frozen=True, kw_only=True)
class _BaselineFile(FileRecord):
    version: int = declared(help="version of this format", minimum=1)
    constants: dict[str, dict[str, tuple[float, ...]]] = declared(
        help="digest -> constant -> value and spread"
    )
    kernels: dict[str, _KernelRow] = declared(help="OWNER KERNEL on CHIP -> baseline")


@dataclass
class Baselines:
    """The baselines of a file.

    Attributes:
        times: the time of each kernel by its key.
    """

    path: Path
    times: dict[Key, KernelTime] = field(default_factory=dict[Key, KernelTime])

    def other_chips(self, key: Key) -> list[str]:
        """Chips for which the same kernel has a baseline."""
        return [other.chip for other in sorted(self.times) if other[:2] == key[:2] and other != key]

    def text(self) -> str:
        """The content of the file."""
        constants = {constants_id(time.constants): time.constants for time in self.times.values()}
        parts = [_HEAD, f"version = {_VERSION}\n"]
        parts += [_constants_text(digest, constants[digest]) for digest in sorted(constants)]
        if not constants:
            parts.append("\n[constants]\n")
        parts += [_time_text(key, self.times[key]) for key in sorted(self.times)]
        if not self.times:
            parts.append("\n[kernels]\n")
        return "".join(parts)

    def check_writable(self) -> None:
        """Refuse a file that cannot be written, before kernels run for it.

        Raises:
            BadInput: it is a folder, or its folder cannot be made or written to.
        """
        files.check_folder(self.path.parent)
        if self.path.parent.is_dir():
            files.check_writable(self.path)

    def write(self) -> Path:
        """Write the file, whole or not at all.

        Raises:
            BadInput: it cannot be written.
        """
        return files.write(self.path, self.text(), parents=True)


def read_baselines(path: Path) -> Baselines:
    """The baselines of a file; no baselines for a file that does not exist.

    Raises:
        BadInput: it has a merge conflict, is of another version, or is not legal.
    """
    if not path.exists():
        return Baselines(path)
    return baselines_of(path, files.read_bytes(path, _FIX))


def baselines_of(path: Path, content_bytes: bytes) -> Baselines:
    """The baselines that the content of a file stands for.

    Raises:
        BadInput: as `read_baselines`.
    """
    _refuse_conflict(path, files.decoded(content_bytes, path, _FIX))
    content = reader.parse(content_bytes, path, _FIX, form="toml")
    table = content.parsed.content
    version = table.get("version") if isinstance(table, dict) else None
    if isinstance(version, int) and version != _VERSION:
        raise content.refused(
            content.root.inner("version").line.line,
            f"version {version} of the format of baselines; this trnsim reads {_VERSION}",
        )
    file = reader.record(_BaselineFile, content.root)
    baselines = Baselines(path)
    for text, row in file.kernels.items():
        try:
            key = Key.of(text)
        except ValueError as error:
            raise row.record_error(str(error)) from None
        baselines.times[key] = _time_of(key, row, file)
    return baselines


def _refuse_conflict(path: Path, text: str) -> None:
    """Refuse a file with the marks of a merge conflict.

    Raises:
        BadInput: it has one.
    """
    lines = enumerate(text.splitlines(), 1)
    marked_lines = [number for number, line in lines if line.startswith(_CONFLICT_MARKS)]
    if marked_lines:
        raise reader.fault(
            path,
            "a merge conflict is left in the baselines",
            "keep either side of each table, then write the kernels of the merge again: "
            "pytest --trn-update, or trnsim check --update",
            marked_lines[0],
        )


def _time_of(key: Key, row: _KernelRow, file: _BaselineFile) -> KernelTime:
    pairs = file.constants.get(row.constants)
    if pairs is None:
        raise row.refused("constants", "not among the constants of the file")
    constants: dict[str, DrawnConstant] = {}
    for name, pair in pairs.items():
        if len(pair) != len(("value", "spread")):
            raise file.refused("constants", f"{name} is {list(pair)}; legal: [value, spread]")
        constants[name] = DrawnConstant(*pair)
    if constants_id(constants) != row.constants:
        raise row.refused("constants", "not the digest of the constants under that name")
    lines = [
        KernelLineTime(line.file, line.number, line.text, line.critical_us, line.busy_us)
        for line in row.lines
    ]
    return KernelTime(
        chip=key.chip,
        model=row.trnsim,
        constants=constants,
        source=row.source,
        inputs=row.inputs,
        time_us=row.time_us,
        draws_us=row.draws_us,
        lines=tuple(sorted(lines, key=lambda line: -line.critical_us)),
    )


def _constants_text(digest: str, constants: Constants) -> str:
    rows = (f"{key} = [{row.value!r}, {row.spread!r}]\n" for key, row in sorted(constants.items()))
    return f"\n[constants.{_toml_string(digest)}]\n{''.join(rows)}"


def _time_text(key: Key, time: KernelTime) -> str:
    lines = [
        f"  {{ file = {_toml_string(line.file)}, line = {line.line}, critical_us = "
        f"{line.critical_us!r}, busy_us = {line.busy_us!r}, text = {_toml_string(line.text)} }},\n"
        for line in in_file_order(time.lines)
    ]
    rows = (
        f"trnsim = {_toml_string(time.model)}\n",
        f"constants = {_toml_string(constants_id(time.constants))}\n",
        f"source = {_toml_string(time.source)}\n",
        f"inputs = {_toml_string(time.inputs)}\n",
        f"time_us = {time.time_us!r}\n",
        f"draws_us = [\n{_draws_text(time.draws_us)}]\n",
        f"lines = [\n{''.join(lines)}]\n",
    )
    return f"\n[kernels.{_toml_string(str(key))}]\n{''.join(rows)}"


def _draws_text(draws: Sequence[float]) -> str:
    rows = (draws[at : at + _DRAWS_PER_LINE] for at in range(0, len(draws), _DRAWS_PER_LINE))
    return "".join(f"  {', '.join(map(repr, row))},\n" for row in rows)


def _toml_string(text: str) -> str:
    """A text as a basic string of TOML: as in JSON, but for the character 7F.

    Source: TOML 1.0.0, String.
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
