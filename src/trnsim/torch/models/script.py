"""A Python file's model: its variable `model`, called with its variable `args`."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn
from torch._subclasses import fake_tensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from trnsim.device.program_line import is_program
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.files import check_readable
from trnsim.torch.models.model_graph import MODEL_ERRORS, ModelGraph, module_graph

_VALUE_ERRORS: Final = (
    GuardOnDataDependentSymNode,
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)
"""Errors of PyTorch about a read of a value in a trace, which has none."""
_ARGUMENTS: Final = ("args", "example_inputs")
_FIX: Final = "define model, a torch.nn.Module, and args, the tuple that it is called with"


def script_graph(path: Path) -> ModelGraph:
    """The graph of a file's model; the file runs as a module would, not as a program.

    Raises:
        BadInput: for a file without a model, or without arguments, and for a model that cannot be
            traced on them: it takes other arguments, or it branches on the value of a tensor.
    """
    check_readable(path, fix=_FIX)
    names = runpy.run_path(str(path))
    model = names.get("model")
    if not isinstance(model, nn.Module):
        raise BadInput(
            f"{path} defines {_definition(names, 'model')}; legal: a torch.nn.Module", fix=_FIX
        )
    name = next((argument for argument in _ARGUMENTS if argument in names), _ARGUMENTS[0])
    args = names.get(name)
    arguments = (args,) if isinstance(args, Tensor) else args
    if not isinstance(arguments, tuple | list):
        raise BadInput(
            f"{path} defines {_definition(names, name)}; legal: a tuple of tensors, named "
            f"{' or '.join(_ARGUMENTS)}",
            fix=_FIX,
        )
    try:
        return module_graph(model.eval(), tuple(arguments))
    except EmulatorError:
        raise
    except MODEL_ERRORS as error:
        raise _untraceable_error(path, error) from error


def _untraceable_error(path: Path, error: Exception) -> BadInput:
    """The error of a model that raises `error` on its arguments, at the model's own line."""
    is_of_values = isinstance(error, _VALUE_ERRORS)
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_program(f.filename)]
    return BadInput(
        f"{path}: the model cannot be traced, as "
        + ("it reads the value of a tensor" if is_of_values else f"model(*args) raises {reason}"),
        fix="compute with torch.where and masks, in place of branches and sizes by value"
        if is_of_values
        else "define args with which model(*args) runs",
        line=SourceLine(frames[-1].filename, frames[-1].lineno or 0) if frames else None,
    )


def _definition(names: dict[str, Any], name: str) -> str:
    """Text of an error: the name and the type of its value, or that it is not defined."""
    return f"{name} as {type(names[name]).__name__}" if name in names else f"no {name}"
