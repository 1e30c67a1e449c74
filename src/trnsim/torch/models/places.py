"""Where a module is while it is traced: what each node of the graph says that it came from.

PyTorch copies the state of `torch.fx.traceback` to each node that it makes. Hooks of the modules
keep the path there, and each of PyTorch's functions that the user's code calls leaves its line. The
backward pass calls no module: a gradient's place is that of what it is the gradient of.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import traceback
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from trnsim.device.program_line import leave_out, program_line

if TYPE_CHECKING:
    from collections.abc import Iterable


leave_out(torch)


class Place(NamedTuple):
    """Where the program is.

    Attributes:
        modules: path and class of each module that is being called, outermost first.
        line: of the user's program, as PyTorch writes it.
    """

    modules: dict[str, tuple[str, str]]
    line: str


class Places(TorchFunctionMode):
    """Notes the place of each function, and of what its gradient will be made of."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[str, tuple[str, str]] = {}
        self._made: dict[Any, Place] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The function's own result."""
        del types
        place = Place(dict(self._modules), _line())
        _set(place)
        found = func(*args, **(kwargs or {}))
        if torch.is_grad_enabled():
            for one in pytree.tree_leaves(found):
                if isinstance(one, Tensor) and one.grad_fn is not None:
                    self._note(one.grad_fn, place)
        return found

    @contextmanager
    def of(self, module: nn.Module) -> Generator[None]:
        """In this block, nodes say where in a module they were made."""
        hooks: list[Any] = []
        for path, one in module.named_modules():
            hooks.append(one.register_forward_pre_hook(self._entering(path, type(one).__name__)))
            hooks.append(one.register_forward_hook(self._leaving(path)))
        try:
            with traceback.preserve_node_meta(), self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def of_gradients(self) -> Generator[None]:
        """In this block, the gradients of what led to a loss say what they are gradients of."""
        for made, place in self._made.items():
            made.register_prehook(partial(_enter, place))
        with traceback.preserve_node_meta():
            yield

    def _note(self, made: Any, place: Place) -> None:
        """Remember the place of a step of the backward pass, and of new ones below it."""
        for one in _below([made], self._made.__contains__):
            self._made[one] = place

    def _entering(self, path: str, kind: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self._modules[path] = (path, kind)

        return enter

    def _leaving(self, path: str) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            self._modules.pop(path, None)

        return leave


def _enter(place: Place, *_: Any) -> None:
    _set(place)


def _set(place: Place) -> None:
    """What nodes that are made from now on say."""
    traceback.current_meta["nn_module_stack"] = place.modules
    traceback.current_meta["stack_trace"] = place.line


def _line() -> str:
    line = program_line()
    return "" if line is None else f'File "{line.file}", line {line.line}'


def _below(first: Iterable[Any], is_known: Callable[[Any], bool]) -> Generator[Any]:
    """Steps of a backward pass, each once, and those that they lead to, up to known ones."""
    waiting, seen = [one for one in first if one is not None], set[Any]()
    while waiting:
        one = waiting.pop()
        if one in seen or is_known(one):
            continue
        seen.add(one)
        yield one
        waiting += [step for step, _ in one.next_functions if step is not None]
