"""Scan of an exported PyTorch program: its operators, judged by the compiler's own lowerings.

An export holds the operators that a program calls, also within libraries, and the lines that call
them. Reading it needs PyTorch; the modules that the file names are not imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.decide.scan.findings import ScanFinding
from trnsim.decide.scan.operators import HOST
from trnsim.decide.scan.programs import ScannedProgram, unreadable
from trnsim.errors import BadInput, EmulatorError

__all__ = ["read_export"]

_PYTORCH_MISSING: Final = "reading it needs PyTorch: pip install 'trnsim[torch]'"


def read_export(file: str, path: Path, root: Path) -> ScannedProgram:
    """Operators without a lowering in the export at `path`, called `file` in findings."""
    if find_spec("torch") is None:
        return unreadable(file, 1, _PYTORCH_MISSING)
    from trnsim.torch.models.exported import exported_graph  # noqa: PLC0415  torch is an extra

    try:
        graph = exported_graph(path)
    except BadInput as error:
        return unreadable(file, 1, error.reason)
    except EmulatorError as error:  # AWS's compiler refuses sizes that change from call to call
        advice = error.fix or "give every dimension a size"
        return ScannedProgram({ScanFinding(file, 1, "operator", error.reason, "M", advice)})
    program = ScannedProgram(frameworks={"pytorch"})
    for call in graph.calls:
        if call.reason:
            program.unlowered += 1
            program.places.add(_finding(call, file, root))
        else:
            program.lowered += 1
    return program


def _finding(call: FrameworkCall, file: str, root: Path) -> ScanFinding:
    """A call as a finding, at its line in the user's program if the export has it."""
    line = 1
    if call.line is not None:
        line, stated = call.line.line, Path(call.line.file)
        is_below = stated.is_relative_to(root)
        file = stated.relative_to(root).as_posix() if is_below else str(stated)
    return ScanFinding(file, line, "operator", call.operator, "M", HOST.format(call.name))
