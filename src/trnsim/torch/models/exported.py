"""`torch.export` programs: the graph in a file, its weights among its inputs."""

from __future__ import annotations

import logging
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Final
from zipfile import is_zipfile

import torch

from trnsim.errors import BadInput
from trnsim.files import check_readable
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered
from trnsim.torch.compile.refused import refused_as_dynamic
from trnsim.torch.models.model_graph import ModelGraph

_UNKNOWN_CLASS: Final = re.compile(r"(?P<module>[\w.]+)\.\w+(?= in pytree is not registered)")
_UNKNOWN_OPERATOR: Final = re.compile(r"(?<=failed to resolve )torch\.ops\.[\w.]+")
_EXPORT: Final = "write one: torch.export.save(torch.export.export(model, args), 'model.pt2')"


def exported_graph(path: Path, *, may_import: bool = True) -> ModelGraph:
    """The graph of the exported program in a file.

    Args:
        path: the file.
        may_import: whether modules are imported that define the classes of its results.

    Raises:
        BadInput: for a file that is not an exported program.
        CompilerRefusal: for a program with dimensions without a size.
    """
    program = _loaded(path, may_import=may_import)
    module = program.graph_module
    for dynamic in refused_as_dynamic(module):
        raise dynamic.error()
    return ModelGraph.of(import_graph(module), weight_names(program))


def weight_names(program: torch.export.ExportedProgram) -> set[str]:
    """The names of a program's inputs that do not change from call to call."""
    signature = program.graph_signature
    return {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }


def _loaded(path: Path, *, may_import: bool) -> torch.export.ExportedProgram:
    check_readable(path, fix=_EXPORT)
    if not is_zipfile(path):
        raise BadInput(f"{path} is no exported program", fix=_EXPORT)
    with warnings.catch_warnings():
        # PyTorch's own export uses a class that it has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = _read(path, frozenset(), may_import=may_import)
        lowered: torch.export.ExportedProgram = program.run_decompositions(
            pytorch.decompositions(is_lowered)
        )
        return lowered


def _read(
    path: Path, imported: frozenset[str], *, may_import: bool
) -> torch.export.ExportedProgram:
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
        if not may_import:
            raise BadInput(
                f"{path} returns an object of {unknown[0]}, which is not imported here",
                fix="export a model that returns tensors",
            ) from error
    finally:
        log.removeFilter(said)
    try:
        import_module(module)
    except ImportError as error:
        raise BadInput(
            f"{path} returns an object of {unknown[0]}, and {error}",
            fix=f"install {module.partition('.')[0]} as it was where the program was made",
        ) from error
    return _read(path, imported | {module}, may_import=may_import)


class _Said(logging.Filter):
    """A log filter that keeps errors and prints nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """False: keep the error, and log nothing."""
        self.errors.append(str(record.exc_info[1] if record.exc_info else record.getMessage()))
        return False
