"""Names of a module of `torch_neuronx` that are imported when they are first asked for.

`import torch_neuronx` also stands for the device alone, and pays for no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from trnsim.absence import Absence, AbsentNames

_SOURCE = "aws-neuron-sdk frameworks/torch/torch-neuronx"


def serve(
    public: str,
    module: str,
    table: Mapping[Any, str],
    absent: Mapping[Any, tuple[str, str]] | None = None,
    otherwise: Callable[[str], Any] | None = None,
) -> Callable[[str], Any]:
    """The `__getattr__` of a module.

    Args:
        public: the module's name in programs.
        module: its name here.
        table: names, each with the module that has it, after a colon its name there.
        absent: names that are refused, each with a reason and what is here instead.
        otherwise: the function that looks up all other names.
    """
    refused = absent or {}

    def explain(name: str) -> Absence | None:
        if name not in refused:
            return None
        reason, instead = refused[name]
        return Absence(f"{public}.{name}: {reason}", instead, _SOURCE)

    names = AbsentNames(module, public, explain)
    AbsentNames(public, public, explain)

    def get(name: str) -> Any:
        place = table.get(name)
        if place is not None:
            owner, _, attribute = place.partition(":")
            return getattr(import_module(owner), attribute or name)
        if otherwise is not None and name not in refused:
            return otherwise(name)
        return names.serve(name)

    return get
