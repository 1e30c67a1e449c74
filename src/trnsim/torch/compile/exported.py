"""`torch.export` programs on the chip: time by operator, memory, operators without a lowering.

An exported program has its weights among its inputs, so their bytes are in the memory plan. No
values are computed: time and memory follow from the graph alone.
"""

from __future__ import annotations

import logging
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Final
from zipfile import is_zipfile

import torch

from trnsim import arch, compiler
from trnsim.compiler import Flags
from trnsim.compiler.casts import apply_casts
from trnsim.compiler.ncc.limits import instructions_refused, memory_refused
from trnsim.compiler.ncc.refusals import Refusal
from trnsim.device.compiled_program import CompiledProgram
from trnsim.device.device_core import compiled_cores, device_core
from trnsim.errors import BadInput
from trnsim.files import check_readable
from trnsim.lower import memory_plan
from trnsim.profile.units import bytes_text
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered
from trnsim.torch.compile.refused import refused, refused_as_dynamic, require_accepted
from trnsim.torch.device_errors import OutOfDeviceMemory

_UNKNOWN_CLASS: Final = re.compile(r"(?P<module>[\w.]+)\.\w+(?= in pytree is not registered)")
_UNKNOWN_OPERATOR: Final = re.compile(r"(?<=failed to resolve )torch\.ops\.[\w.]+")
_EXPORT: Final = "write one: torch.export.save(torch.export.export(model, args), 'model.pt2')"


def compile_program(
    path: Path,
    target: str,
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
) -> CompiledProgram:
    """The exported program in a file, lowered for a chip, with AWS's flags.

    It is split over `lnc` physical cores: those that the flags name, or a device has, if None.

    Raises:
        BadInput: for a file that is not an exported program, and for cores that the chip has not.
        CompilerRefusal: for what neuronx-cc refuses, under the policy `chip`; for a program with
            dimensions without a size under either.
        OutOfDeviceMemory: for a program that does not fit in the HBM of a NeuronCore.
    """
    program = _loaded(path)
    module = program.graph_module
    for dynamic in refused_as_dynamic(module):
        raise dynamic.error()
    imported = import_graph(module)
    found = refused(imported, target, flags)
    require_accepted(found)
    graph = apply_casts(imported.graph, flags)
    plan = memory_plan(graph, imported.names)
    chip = arch.target(target)
    cores = compiled_cores(chip, flags, lnc)
    device = device_core(chip, cores)
    for code, _ in memory_refused(plan, device.hbm_bytes):
        raise OutOfDeviceMemory(
            f"{code}: {path.name} needs {bytes_text(plan.peak_bytes)} of HBM at its peak; a "
            f"NeuronCore of {target} has {bytes_text(device.hbm_bytes)}\n{plan.table()}",
            fix="shard the model, or export it for a smaller batch",
            source=device.source,
        )
    weights = {n for n, name in imported.names.items() if name in weight_names(program)}
    made = compiler.compile(graph, target, lnc=cores, weights=weights)
    kernels = made.costs()
    total = sum(kernel.instructions for kernel in kernels)
    many = [Refusal(code, what) for code, what in instructions_refused(total)]
    require_accepted(many)
    operators, missing = imported.operators, imported.missing
    said = (*flags.said, *map(str, (*found, *many)))
    return CompiledProgram(
        path.name, target, operators, missing, plan, kernels, said, cores, made.said
    )


def weight_names(program: torch.export.ExportedProgram) -> set[str]:
    """The names of a program's inputs that do not change from call to call."""
    signature = program.graph_signature
    return {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }


def _loaded(path: Path) -> torch.export.ExportedProgram:
    check_readable(path, fix=_EXPORT)
    if not is_zipfile(path):
        raise BadInput(f"{path} is no exported program", fix=_EXPORT)
    with warnings.catch_warnings():
        # PyTorch's own export uses a class that it has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = _read(path, frozenset())
        lowered: torch.export.ExportedProgram = program.run_decompositions(
            pytorch.decompositions(is_lowered)
        )
        return lowered


def _read(path: Path, imported: frozenset[str]) -> torch.export.ExportedProgram:
    """The program in a file, after importing modules that define the classes of its results.

    PyTorch names such a class only in its log, and only if it was not imported yet.
    """
    log, said = logging.getLogger("torch.export"), _Said()
    log.addFilter(said)
    try:
        with path.open("rb") as stream:  # given a path, PyTorch loads only names in .pt2
            return torch.export.load(stream)
    except (RuntimeError, ValueError, KeyError) as error:
        told = "\n".join([str(error), *said.errors])
        unknown, operator = _UNKNOWN_CLASS.search(told), _UNKNOWN_OPERATOR.search(told)
        if operator is not None:
            raise BadInput(
                f"{path} calls {operator[0]}, which nothing here registers",
                fix="name the module that does: trnsim compile --import MODULE ...",
            ) from error
        if unknown is None or unknown["module"] in imported:
            reason = str(error).splitlines()[0]
            raise BadInput(f"{path} is no exported program: {reason}", fix=_EXPORT) from error
        module = unknown["module"]
    finally:
        log.removeFilter(said)
    try:
        import_module(module)
    except ImportError as error:
        raise BadInput(
            f"{path} returns an object of {unknown[0]}, and {error}",
            fix=f"install {module.partition('.')[0]} as it was where the program was made",
        ) from error
    return _read(path, imported | {module})


class _Said(logging.Filter):
    """A log filter that keeps errors and prints nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """False: keep the error, and log nothing."""
        self.errors.append(str(record.exc_info[1] if record.exc_info else record.getMessage()))
        return False
