"""Scan of a workload's program files for code that another accelerator does not run unchanged.

Files are read as text and as syntax trees; none is imported or run. Operators that a library calls
and dynamic shapes do not stand in the source text: they are found only in exports (.pt2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.decide.scan.exports import read_export
from trnsim.decide.scan.findings import ScanFinding, ScanFindings
from trnsim.decide.scan.packages import KERNEL_NAMES
from trnsim.decide.scan.programs import ScannedProgram, read_program, unreadable
from trnsim.errors import BadInput

__all__ = ["ScanFinding", "ScanFindings", "scan"]

_PYTHON_ENDING: Final = ".py"
_CUDA_ENDINGS: Final = (".cu", ".cuh")
_EXPORT_ENDING: Final = ".pt2"
_LEGAL_ENDINGS: Final = (_PYTHON_ENDING, *_CUDA_ENDINGS, _EXPORT_ENDING)
_SKIPPED_FOLDERS: Final = frozenset(
    {"__pycache__", "node_modules", "site-packages", "venv", "build"}
)
_MOST_FILES: Final = 20_000
_MOST_BYTES: Final = 4_000_000
_KERNEL_PATTERN: Final = re.compile(
    rb"__global__\s++(?:__launch_bounds__\s*+\([^)]{0,999}+\)\s*+)?+([^;{(]{0,999}+)\("
)
"""Declaration of a kernel up to its arguments; of bounded length, so that no file takes long."""
_LAST_WORD_PATTERN: Final = re.compile(rb"(\w+)\s*\Z")


def scan(paths: Sequence[Path], root: Path) -> ScanFindings:
    """Findings in the program files and folders `paths`, with files relative to `root`.

    Raises:
        BadInput: a path does not exist, leads out of `root`, holds too many files, or a folder
            cannot be read.
    """
    programs: list[ScannedProgram] = []
    for path in sorted(_program_files(paths, root)):
        file = path.relative_to(root.resolve()).as_posix()
        programs.append(_read_program(file, path, root.resolve()))
    findings = {finding for program in programs for finding in program.findings}
    return ScanFindings(
        places=tuple(sorted(findings)),
        files=len(programs),
        lowered=sum(program.lowered for program in programs),
        unlowered=sum(program.unlowered for program in programs),
        unknown=tuple(sorted({name for program in programs for name in program.unknown})),
        frameworks=tuple(sorted({name for program in programs for name in program.frameworks})),
    )


def _program_files(paths: Sequence[Path], root: Path) -> set[Path]:
    """The program files among `paths` and below them."""
    program_files: set[Path] = set()
    top = root.resolve()
    for path in paths:
        resolved_path = path.resolve()
        if not resolved_path.is_relative_to(top):
            raise BadInput(f"{path} leads out of {root}", fix="name program files below it")
        if not resolved_path.exists():
            raise BadInput(f"cannot scan {path}: no such file or folder")
        for file in _files_below(resolved_path) if resolved_path.is_dir() else [resolved_path]:
            program_files.add(file)
            if len(program_files) > _MOST_FILES:
                raise BadInput(
                    f"{path} holds more than {_MOST_FILES:,} program files",
                    fix="name the folders of the workload's own programs",
                )
    return program_files


def _files_below(folder: Path) -> Iterator[Path]:
    """Program files below a folder, without links, hidden folders and installed packages."""
    for parent, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS
        )
        for name in names:
            file = Path(parent) / name
            if file.suffix in _LEGAL_ENDINGS and not file.is_symlink():
                yield file


def _refuse_folder(error: OSError) -> None:
    raise BadInput(
        f"cannot scan {error.filename}: {error.strerror}", fix="make it readable, or leave it out"
    ) from error


def _read_program(file: str, path: Path, root: Path) -> ScannedProgram:
    """Findings and counts of the program at `path`, called `file` in findings."""
    if path.suffix == _EXPORT_ENDING:
        return read_export(file, path, root)
    try:
        source = files.read_bytes(path)
    except BadInput as error:
        return unreadable(file, 1, error.reason)
    if len(source) > _MOST_BYTES:
        return unreadable(file, 1, f"{len(source):,} bytes; read up to {_MOST_BYTES:,}")
    if path.suffix in _CUDA_ENDINGS:
        return _read_cuda(file, source)
    if path.suffix == _PYTHON_ENDING:
        return read_program(file, source)
    return unreadable(file, 1, f"no program: legal: {', '.join(_LEGAL_ENDINGS)}")


def _read_cuda(file: str, source: bytes) -> ScannedProgram:
    """Kernels of a CUDA file as findings, or the file itself if it has no kernel."""
    advice = KERNEL_NAMES["torch.utils.cpp_extension.load"].advice
    findings: set[ScanFinding] = set()
    line, counted_to = 1, 0
    for kernel in _KERNEL_PATTERN.finditer(source):
        line += source.count(b"\n", counted_to, kernel.start())
        counted_to = kernel.start()
        if name := _LAST_WORD_PATTERN.search(kernel[1]):
            text = f"__global__ {name[1].decode('ascii', 'replace')}"
            findings.add(ScanFinding(file, line, "cuda", text, "L", advice))
    return ScannedProgram(findings or {ScanFinding(file, 1, "cuda", "CUDA source", "L", advice)})
