"""A traced program as a submodule of a ScriptModule, which saves it and loads it by an operator."""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor, nn

_PROGRAM_CLASS: Final = "NeuronProgram"


class NeuronProgram(nn.Module):
    """A program on the device.

    TorchScript compiles this class from its text, so it uses TorchScript's forms alone.

    Attributes:
        weights: its weights, in the program's order.
        is_lazy: True if it is loaded when it first runs.
        is_async: True if it is loaded in the background.
        is_batched: True if its inputs may have other batch sizes than it was traced for.
        instance: the number of the loaded program in this process.
    """

    program: Tensor
    weights: list[Tensor]
    is_lazy: bool
    is_async: bool
    is_batched: bool
    instance: int

    def __init__(self, program: Tensor, weights: list[Tensor]) -> None:
        super().__init__()
        self.program = program
        self.weights = weights
        self.is_lazy = False
        self.is_async = False
        self.is_batched = False
        self.instance = torch.ops.neuron.load(program, False, False)

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        """The program's outputs."""
        return torch.ops.neuron.forward(  # type: ignore[no-any-return]
            self.program, self.weights, inputs, self.is_batched, self.instance
        )

    @torch.jit.export
    def step(self, inputs: list[Tensor], states: list[Tensor]) -> list[Tensor]:
        """The program's outputs, then its new states, for states that the caller keeps."""
        return torch.ops.neuron.forward_with_states(  # type: ignore[no-any-return]
            self.program, self.weights, inputs, states, self.instance
        )

    @torch.jit.export
    def __getstate__(  # pyright: ignore[reportIncompatibleMethodOverride]  of TorchScript
        self,
    ) -> tuple[Tensor, list[Tensor], bool, bool, bool, bool]:
        return (
            torch.ops.neuron.savable(self.program),
            self.weights,
            self.is_lazy,
            self.is_async,
            self.is_batched,
            self.training,
        )

    @torch.jit.export
    def __setstate__(self, state: tuple[Tensor, list[Tensor], bool, bool, bool, bool]) -> None:
        self.program = state[0]
        self.weights = state[1]
        self.is_lazy = state[2]
        self.is_async = state[3]
        self.is_batched = state[4]
        self.training = state[5]
        self.instance = torch.ops.neuron.load(self.program, self.is_lazy, self.is_async)


PART: Final = "model"
"""The attribute of a module that has its program, if it has a single one.

Source: neuronx-distributed trace/trace.py, TensorParallelNeuronModel._load.
"""
BUCKETS: Final = "bucket_model_executor"
"""The attribute of a module whose `models` are its programs, one for each shape of the inputs.

Source: neuronx-distributed trace/trace.py, TensorParallelNeuronModel._load.
"""


def script_module(
    title: str,
    parts: Mapping[str, tuple[bytes, list[Tensor]]],
    forward: str,
    attributes: Mapping[str, Any] | None = None,
    buckets: Sequence[tuple[bytes, list[Tensor]]] = (),
) -> Any:
    """A module that computes by programs.

    Args:
        title: the name of its class.
        parts: the stored program and weights of each part, by its name.
        forward: the text of its method `forward`, which calls the parts.
        attributes: TorchScript functions that it calls, and values, by name.
        buckets: the stored programs and weights of `bucket_model_executor.models`.
    """
    owner: Any = type(title, (nn.Module,), {})
    module = owner()
    for name, (content, weights) in parts.items():
        setattr(module, name, _program(content, weights))
    if buckets:
        executor: Any = nn.Module()
        executor.models = nn.ModuleList(_program(*bucket) for bucket in buckets)
        setattr(module, BUCKETS, executor)
    for name, value in (attributes or {}).items():
        setattr(module, name, value)
    with warnings.catch_warnings():
        # PyTorch has deprecated TorchScript, in which traced modules are defined.
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted: Any = _with_compiled_parts(module)
        scripted.define(forward)
        scripted.eval()
    return scripted


def _program(content: bytes, weights: list[Tensor]) -> NeuronProgram:
    return NeuronProgram(torch.frombuffer(bytearray(content), dtype=torch.uint8), weights)


def _with_compiled_parts(module: nn.Module) -> Any:
    """A ScriptModule of a module without `forward`, whose submodules of programs are compiled."""
    recursive: Any = import_module("torch.jit._recursive")  # PyTorch's own way has no such form

    def stubs(part: Any) -> Any:
        is_part = type(part) is NeuronProgram
        return recursive.infer_methods_to_compile(part) if is_part else []

    return recursive.create_script_module(module, stubs, share_types=False)


def is_program(module: Any) -> bool:
    """True if a module is a `NeuronProgram`, compiled by TorchScript or loaded from a file."""
    return getattr(module, "original_name", "") == _PROGRAM_CLASS and hasattr(module, "instance")


def programs_in(module: Any) -> list[Any]:
    """The `NeuronProgram`s of a module and of its submodules."""
    return [part for part in module.modules() if is_program(part)]
