"""`torch.export` programs: the graph in a file, with weights as inputs."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Final

import torch

from trnsim.errors import BadInput, EmulatorError
from trnsim.files import check_readable
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered
from trnsim.torch.compile.refused import dynamic_refusals
from trnsim.torch.models.archive import read_program
from trnsim.torch.models.model_graph import ModelGraph
from trnsim.torch.models.onednn import without_onednn

_UNKNOWN_CLASS: Final = re.compile(r"(?P<module>[\w.]+)\.\w+(?= in pytree is not registered)")
_UNKNOWN_OPERATOR: Final = re.compile(r"(?<=failed to resolve )torch\.ops\.[\w.]+")
_EXPORT_FIX: Final = "write one: torch.export.save(torch.export.export(model, args), 'model.pt2')"


def exported_graph(path: Path) -> ModelGraph:
    """The graph of the exported program in a file; no code of the file is run or imported.

    Raises:
        BadInput: for a file that is not an exported program.
        CompilerRefusal: for a program with dynamic dimensions.
    """
    check_readable(path, fix=_EXPORT_FIX)
    with warnings.catch_warnings():
        # PyTorch's own export uses a class that it has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = _lowered_program(path)
    module = program.graph_module
    for refusal in dynamic_refusals(module):
        raise refusal.error()
    return ModelGraph.of(import_graph(module), weight_names(program))


def weight_names(program: torch.export.ExportedProgram) -> set[str]:
    """The names of a program's inputs that do not change from call to call."""
    signature = program.graph_signature
    return {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }


def _lowered_program(path: Path) -> torch.export.ExportedProgram:
    """The program in a file, decomposed into lowered operators.

    Raises:
        BadInput: for a file that is no program, or needs a module that is not imported.
    """
    log, error_filter = logging.getLogger("torch.export"), _ErrorFilter()
    log.addFilter(error_filter)
    try:
        program = read_program(path, _EXPORT_FIX)
        with without_onednn():
            lowered_program: torch.export.ExportedProgram = program.run_decompositions(
                pytorch.decompositions(is_lowered)
            )
    except EmulatorError:
        raise
    except Exception as error:  # PyTorch does not check the types of a file's fields
        text = "\n".join([str(error), *error_filter.errors])
        match, operator_match = (
            _UNKNOWN_CLASS.search(text),
            _UNKNOWN_OPERATOR.search(text),
        )
        if operator_match is not None:
            raise BadInput(
                f"{path} calls {operator_match[0]}, which nothing here registers",
                fix="name the module that does: trnsim compile --import MODULE ...",
            ) from error
        if match is not None:
            raise BadInput(
                f"{path} takes or returns an object of {match[0]}, which is not imported here",
                fix="if you trust that module: trnsim compile --import "
                f"{match['module'].partition('.')[0]} ...; or export a model of tensors",
            ) from error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path} is no exported program: {reason}", fix=_EXPORT_FIX) from error
    else:
        return lowered_program
    finally:
        log.removeFilter(error_filter)


class _ErrorFilter(logging.Filter):
    """A log filter that keeps errors and prints nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the error, and return False, so that nothing is logged."""
        self.errors.append(str(record.exc_info[1] if record.exc_info else record.getMessage()))
        return False
