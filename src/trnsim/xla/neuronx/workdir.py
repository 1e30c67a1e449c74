"""The folder of a compilation: the report of `trnsim compile`, and the program as a file.

The program stands where AWS's compiler leaves its NEFF, under that name; its first line says what
it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trnsim.device.model_report import ModelReport
from trnsim.errors import BadInput
from trnsim.files import check_folder, write
from trnsim.foreign_text import file_name
from trnsim.profile import report_of, write_report
from trnsim.torch.traces.stored import StoredProgram

PROGRAM: Final = "graph.neff"
"""The name of the program's file.

Source: neuronx-distributed src/neuronx_distributed/trace/trace.py reads it.
"""


def write_workdir(folder: Path, report: ModelReport, program: StoredProgram) -> list[Path]:
    """Write the report on a program, and the program: their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder)
    name = file_name(program.title)
    paths = [write(folder / PROGRAM, program.to_bytes(), parents=True)]
    paths.append(write(folder / f"{name}.txt", f"{report.long_text()}\n", parents=True))
    try:
        run = report.run()
    except BadInput:  # a graph without instructions has no program to draw
        return paths
    return [*paths, write_report(report_of([run], [report.whole]), folder, name)]
