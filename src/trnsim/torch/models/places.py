"""The module and source line that each node of a traced graph came from.

PyTorch copies the state of `torch.fx.traceback` to each node that it makes. Each call of a PyTorch
function in the user's code puts its place there, a module and a line; hooks of the modules tell
which are being called. The backward pass calls no module: the nodes of a gradient have the place
of the operation that they differentiate.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import traceback
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from trnsim.device.program_line import exclude_frames, program_line

exclude_frames(torch)


class TracePlace(NamedTuple):
    """A place in the program that is traced.

    Attributes:
        modules: path and class of each module that is being called, by path, outermost first; the
            form of PyTorch's `nn_module_stack`.
        line: line of the user's program, in PyTorch's format.
    """

    modules: dict[str, tuple[str, str]]
    line: str


class PlaceRecorder(TorchFunctionMode):
    """A mode that records the place of each function call, for the nodes of its gradient too."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[str, tuple[str, str]] = {}
        self._place_of_gradient: dict[Any, TracePlace] = {}  # by autograd node

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and record its place."""
        del types
        place = TracePlace(dict(self._modules), _line())
        _annotate_nodes(place)
        result = func(*args, **(kwargs or {}))
        if torch.is_grad_enabled():
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, Tensor) and leaf.grad_fn is not None:
                    self._record_gradient(leaf.grad_fn, place)
        return result

    @contextmanager
    def record_forward(self, module: nn.Module) -> Generator[None]:
        """Context in which nodes are annotated with the module and line that they came from."""
        hooks: list[Any] = []
        for path, submodule in module.named_modules():
            class_name = type(submodule).__name__
            hooks.append(submodule.register_forward_pre_hook(self._pre_hook(path, class_name)))
            hooks.append(submodule.register_forward_hook(self._post_hook(path)))
        try:
            with traceback.preserve_node_meta(), self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def annotate_backward(self) -> Generator[None]:
        """Context in which nodes of gradients are annotated with the places of the forward pass."""
        for autograd_node, place in self._place_of_gradient.items():
            autograd_node.register_prehook(partial(_annotate_gradient, place))
        with traceback.preserve_node_meta():
            yield

    def _record_gradient(self, autograd_node: Any, place: TracePlace) -> None:
        """Record the place of an autograd node, and of each later node of its backward pass.

        Nodes that have a place already keep it.
        """
        for new_node in _autograd_nodes(autograd_node, self._place_of_gradient.__contains__):
            self._place_of_gradient[new_node] = place

    def _pre_hook(self, path: str, class_name: str) -> Callable[..., None]:
        """A hook that notes that a module is being called."""

        def enter(*_: Any) -> None:
            self._modules[path] = (path, class_name)

        return enter

    def _post_hook(self, path: str) -> Callable[..., None]:
        """A hook that notes that a module has returned."""

        def leave(*_: Any) -> None:
            self._modules.pop(path, None)

        return leave


def _annotate_gradient(place: TracePlace, *_: Any) -> None:
    _annotate_nodes(place)


def _annotate_nodes(place: TracePlace) -> None:
    """Attach the module stack and source line to every node created from now on."""
    traceback.current_meta["nn_module_stack"] = place.modules
    traceback.current_meta["stack_trace"] = place.line


def _line() -> str:
    """The line of the user's program, in PyTorch's format; "" if there is none."""
    line = program_line()
    return "" if line is None else f'File "{line.file}", line {line.line}'


def _autograd_nodes(root: Any, is_known: Callable[[Any], bool]) -> Generator[Any]:
    """The autograd nodes of the backward pass from `root` on, each once, down to known ones."""
    pending_nodes, visited_nodes = [root], set[Any]()
    while pending_nodes:
        node = pending_nodes.pop()
        if node in visited_nodes or is_known(node):
            continue
        visited_nodes.add(node)
        yield node
        pending_nodes += [
            next_node for next_node, _ in node.next_functions if next_node is not None
        ]
