"""Scan of an exported PyTorch program for operators that the compiler does not lower.

An export (.pt2) holds all operators that a program calls, also within libraries, and the lines of
the calls. Reading it needs PyTorch; the modules that the file names are not imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.decide.scan.findings import ScanFinding
from trnsim.decide.scan.operators import NO_LOWERING_ADVICE
from trnsim.decide.scan.programs import ScannedProgram, unreadable
from trnsim.errors import BadInput, EmulatorError

_PYTORCH_MISSING: Final = "reading it needs PyTorch: pip install 'trnsim[torch]'"


def read_export(file: str, path: Path, root: Path) -> ScannedProgram:
    """Operators without a lowering in an export.

    Args:
        file: name of the export in findings.
        path: path of the export.
        root: folder to which files in findings are relative.
    """
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
            program.findings.add(_finding_of_call(call, file, root))
        else:
            program.lowered += 1
    return program


def _finding_of_call(call: FrameworkCall, file: str, root: Path) -> ScanFinding:
    """A call as a finding, at its line in the user's program if the export has it."""
    line = 1
    if call.line is not None:
        line, source = call.line.line, Path(call.line.file)
        is_below = source.is_relative_to(root)
        file = source.relative_to(root).as_posix() if is_below else str(source)
    return ScanFinding(
        file, line, "operator", call.operator, "M", NO_LOWERING_ADVICE.format(call.name)
    )
