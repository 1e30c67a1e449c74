"""The scope of each call: the module that the program is in, and whether an optimizer steps.

A call in the backward pass belongs to the module of the operator whose gradient it computes:
autograd gives both the same sequence number.

PyTorch's compiler traces these hooks along with their modules, and they leave nothing in its graph.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import torch
import torch.optim.optimizer as optimizers
from torch import nn
from torch.nn.modules import module as hooks

from trnsim.device.call_log import Scope, StepPhase
from trnsim.torch import pytorch

_MOST_SPANS: Final = 1 << 20
"""Spans of operators of which the module is kept; a backward pass reaches back less far."""


@dataclass
class ScopeTracker:
    """Hooks on modules and optimizers, and the state that they keep.

    Attributes:
        is_stepping: true while an optimizer's step is running.
    """

    is_stepping: bool = False
    _modules: list[nn.Module] = field(default_factory=list[nn.Module])
    _names: dict[int, str] = field(default_factory=dict[int, str])
    """The name of each module by its id."""
    _starts: list[int] = field(default_factory=list[int])
    """The sequence number at which each span of operators of one module begins."""
    _paths: list[str] = field(default_factory=list[str])
    """The name of the module of each span."""
    _is_watched: bool = False

    def path(self) -> str:
        """The name of the innermost module, or ""."""
        return self._names.get(id(self._modules[-1]), "") if self._modules else ""

    def scope(self) -> Scope:
        """The module and the phase of the current call."""
        sequence = pytorch.backward_sequence_number()
        if sequence is not None:
            span = bisect_right(self._starts, sequence) - 1
            return Scope(self._paths[span] if span >= 0 else "", StepPhase.backward)
        if self.is_stepping:
            return Scope("", StepPhase.optimizer)
        path = self.path()
        number = pytorch.next_sequence_number()
        # Autograd numbered this operator just before this call.
        if not self._paths or self._paths[-1] != path:
            self._starts.append(max(number - 1, 0))
            self._paths.append(path)
            if len(self._paths) > _MOST_SPANS:
                del self._starts[: _MOST_SPANS // 2], self._paths[: _MOST_SPANS // 2]
        return Scope(path, StepPhase.forward)

    def watch(self) -> list[Any]:
        """Install the hooks and return their handles; none if they are installed already."""
        if self._is_watched:
            return []
        for table in (self._modules, self._names, self._starts, self._paths):
            table.clear()
        self._is_watched = True
        return [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
            optimizers.register_optimizer_step_pre_hook(self._begin_step),
            optimizers.register_optimizer_step_post_hook(self._end_step),
        ]

    @contextmanager
    def watched(self) -> Generator[None]:
        """Context in which the hooks are installed."""
        removers = self.watch()
        try:
            yield
        finally:
            for remover in removers:
                remover.remove()
            self._is_watched = self._is_watched and not removers

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        del inputs
        if torch.compiler.is_compiling():  # a compiled graph is a single event, and traced once
            return
        if not self._modules:
            self.is_stepping = self.is_stepping and _is_in_optimizer()
            root = type(module).__name__
            for name, part in module.named_modules():
                self._names[id(part)] = name or root
        self._modules.append(module)

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        del inputs, outputs
        if torch.compiler.is_compiling():
            return
        if self._modules and self._modules[-1] is module:
            self._modules.pop()

    def _begin_step(self, *_: Any) -> None:
        self.is_stepping = True

    def _end_step(self, *_: Any) -> None:
        self.is_stepping = False


def _is_in_optimizer() -> bool:
    """True if a step of an optimizer is on the stack; PyTorch tells of no step that raised."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the documented way to walk a stack
    while frame is not None and frame.f_code.co_filename != optimizers.__file__:
        frame = frame.f_back
    return frame is not None


scope_tracker = ScopeTracker()
"""The tracker of this process."""
