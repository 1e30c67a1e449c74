"""Names of a module of `torch_neuronx` that are imported at their first use.

A program may import `torch_neuronx` for the device alone; then no compiler is loaded.
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
    absences: Mapping[Any, tuple[str, str]] | None = None,
    fallback: Callable[[str], Any] | None = None,
) -> Callable[[str], Any]:
    """The `__getattr__` of a module.

    Args:
        public: the module's name in programs.
        module: its name here.
        table: by name, the module that has it, and after a colon its name there if that differs.
        absences: by name that is refused, the reason and its replacement.
        fallback: the function that looks up all other names.
    """
    refusals = absences or {}

    def explain(name: str) -> Absence | None:
        if name not in refusals:
            return None
        reason, instead = refusals[name]
        return Absence(f"{public}.{name}: {reason}", instead, _SOURCE)

    names = AbsentNames(module, public, explain)
    AbsentNames(public, public, explain)  # for from-imports by the public name

    def get(name: str) -> Any:
        place = table.get(name)
        if place is not None:
            owner, _, attribute = place.partition(":")
            return getattr(import_module(owner), attribute or name)
        if fallback is not None and name not in refusals:
            return fallback(name)
        return names.serve(name)

    return get
