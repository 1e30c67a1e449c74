"""The module and source line that each node of a traced graph came from.

PyTorch copies the state of `torch.fx.traceback` to each node that it makes. Hooks of the modules
keep the path there, and each of PyTorch's functions that the user's code calls sets its line. The
backward pass calls no module: a gradient has the place of the operation that it differentiates.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import traceback
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from trnsim.device.program_line import leave_out, program_line

leave_out(torch)


class TracePlace(NamedTuple):
    """A place in the program that is traced.

    Attributes:
        modules: path and class of each module that is being called, outermost first.
        line: line of the user's program, in PyTorch's format.
    """

    modules: dict[str, tuple[str, str]]
    line: str


class PlaceRecorder(TorchFunctionMode):
    """A mode that records the place of each function call, and of the steps of its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[str, tuple[str, str]] = {}
        self._place_of: dict[Any, TracePlace] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and record its place."""
        del types
        place = TracePlace(dict(self._modules), _line())
        _annotate_nodes(place)
        result = func(*args, **(kwargs or {}))
        if torch.is_grad_enabled():
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, Tensor) and leaf.grad_fn is not None:
                    self._note(leaf.grad_fn, place)
        return result

    @contextmanager
    def of(self, module: nn.Module) -> Generator[None]:
        """Context in which nodes are annotated with the module and line that they came from."""
        hooks: list[Any] = []
        for path, submodule in module.named_modules():
            hooks.append(
                submodule.register_forward_pre_hook(self._entering(path, type(submodule).__name__))
            )
            hooks.append(submodule.register_forward_hook(self._leaving(path)))
        try:
            with traceback.preserve_node_meta(), self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def of_gradients(self) -> Generator[None]:
        """Context in which nodes of gradients are annotated with the places of the forward pass."""
        for step, place in self._place_of.items():
            step.register_prehook(partial(_enter, place))
        with traceback.preserve_node_meta():
            yield

    def _note(self, step: Any, place: TracePlace) -> None:
        """Record the place of a step of the backward pass, and of new steps below it."""
        for earlier in _below([step], self._place_of.__contains__):
            self._place_of[earlier] = place

    def _entering(self, path: str, kind: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self._modules[path] = (path, kind)

        return enter

    def _leaving(self, path: str) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            self._modules.pop(path, None)

        return leave


def _enter(place: TracePlace, *_: Any) -> None:
    _annotate_nodes(place)


def _annotate_nodes(place: TracePlace) -> None:
    """Attach the module stack and source line to every node created from now on."""
    traceback.current_meta["nn_module_stack"] = place.modules
    traceback.current_meta["stack_trace"] = place.line


def _line() -> str:
    line = program_line()
    return "" if line is None else f'File "{line.file}", line {line.line}'


def _below(first: Iterable[Any], is_known: Callable[[Any], bool]) -> Generator[Any]:
    """Steps of a backward pass and all that follow them, each once, down to known ones."""
    waiting, visited = [step for step in first if step is not None], set[Any]()
    while waiting:
        current = waiting.pop()
        if current in visited or is_known(current):
            continue
        visited.add(current)
        yield current
        waiting += [step for step, _ in current.next_functions if step is not None]
