"""The folder of a compilation: the report of `trnsim compile`, and the program as a file.

The program stands where AWS's compiler leaves its NEFF, under that name; its first line says what
it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from trnsim.device.model_report import ModelReport
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.files import check_folder, write
from trnsim.foreign_text import file_name
from trnsim.profile import report_of, write_report
from trnsim.torch.traces.kernels.embedding import with_kernels
from trnsim.torch.traces.stored import StoredProgram

PROGRAM: Final = "graph.neff"
"""The name of the program's file.

Source: neuronx-distributed src/neuronx_distributed/trace/trace.py reads it.
"""


def check_workdir(folder: Any) -> Path:
    """The folder of a compilation, which can be written to.

    Raises:
        BadInput: for a path that is none, or a folder that cannot be made or written to.
    """
    if not isinstance(folder, str | os.PathLike):
        raise BadInput(
            f"compiler_workdir={folder!r}; legal: the path of a folder",
            fix='compiler_workdir="workdir"',
            line=program_line(),
        )
    check_folder(Path(folder))
    return Path(folder)


def write_workdir(folder: Path, report: ModelReport, program: StoredProgram) -> list[Path]:
    """Write the report on a program, and the program: their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name(program.title)
    paths = [write(folder / PROGRAM, with_kernels(program).to_bytes(), parents=True)]
    paths.append(write(folder / f"{name}.txt", f"{report.long_text()}\n", parents=True))
    try:
        run = report.run()
    except BadInput:  # a graph without instructions has no program to draw
        return paths
    return [*paths, write_report(report_of([run], [report.scaled_estimate]), folder, name)]
