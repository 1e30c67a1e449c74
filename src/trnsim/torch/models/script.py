"""A Python file's model: its variable `model`, called with its variable `args`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from trnsim.errors import BadInput
from trnsim.files import check_readable
from trnsim.torch.models.model_graph import ModelGraph, module_graph

_ARGUMENTS: Final = ("args", "example_inputs")
_FIX: Final = "define model, a torch.nn.Module, and args, the tuple that it is called with"


def script_graph(path: Path) -> ModelGraph:
    """The graph of a file's model; the file runs as a module would, not as a program.

    Raises:
        BadInput: for a file without a model, or without arguments.
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
    return module_graph(model.eval(), tuple(arguments))


def _definition(names: dict[str, Any], name: str) -> str:
    """Text of an error: the name and the type of its value, or that it is not defined."""
    return f"{name} as {type(names[name]).__name__}" if name in names else f"no {name}"
