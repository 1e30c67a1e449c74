"""`torch.ops.neuron`: the operators that load and run traced programs.

TorchScript finds an operator by its schema, so they are registered with the device; what they call
is imported when a program is there. A module calls them with its program, whatever instance of it
is loaded: a frozen or copied module finds its own again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.errors import EmulatorError
from trnsim.files import write
from trnsim.torch import pytorch
from trnsim.user_traceback import show_text_as_own

_RANKS: Final = "Tensor(a!) program, Tensor metaneff, int local, int world"
"""The program as if it were written: TorchScript drops calls that write nothing, or merges them."""
_SCHEMAS: Final = (
    "load(Tensor program, bool is_lazy, bool is_async) -> int",
    (
        "forward(Tensor program, Tensor[] weights, Tensor[] inputs, bool is_batched, int instance) "
        "-> Tensor[]"
    ),
    (
        "forward_with_states(Tensor program, Tensor[] weights, Tensor[] inputs, Tensor[] states, "
        "int instance) -> Tensor[]"
    ),
    "savable(Tensor program) -> Tensor",
    "_load_collectives_neuron(Any model, int start_nc, int nc_count, int rank, int world) -> ()",
    "_parallel_load(Dict(str, Tensor)[] checkpoint) -> Dict(str, Tensor)[]",
    (
        f"ranks_initialize({_RANKS}, Dict(str, Tensor)[] states, Dict(str, Tensor)[] weights, "
        "int start_rank) -> ()"
    ),
    f"ranks_are_initialized({_RANKS}) -> bool",
    f"ranks_mock({_RANKS}, bool mock) -> ()",
    f"ranks_forward({_RANKS}, Tensor[] inputs) -> Tensor[]",
    f"ranks_forward_each({_RANKS}, Tensor[][] inputs) -> Tensor[][]",
    "ranks_write(Tensor content, str path) -> bool",
)
_KERNEL_CALL: Final = b'"operator":"trnsim_nki.'
"""A call of an operator of `trnsim.torch.dispatch.launches` in a stored program."""
_libraries: Final[list[Any]] = []
# A library removes its operators when it is freed, so this one lives as long as the process.


def register() -> None:
    """Register the operators; a second call does nothing."""
    if _libraries:
        return
    library = pytorch.new_library("neuron", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    kernels: dict[str, Any] = {
        "load": _load,
        "forward": _forward,
        "forward_with_states": _forward_with_states,
        "savable": _savable,
        "_load_collectives_neuron": _load_rank,
        "_parallel_load": _load_shards,
        "ranks_initialize": _initialize_ranks,
        "ranks_are_initialized": _are_ranks_initialized,
        "ranks_mock": _mock_ranks,
        "ranks_forward": _run_ranks_alike,
        "ranks_forward_each": _run_ranks,
        "ranks_write": _write,
    }
    for name, kernel in kernels.items():
        library.impl(name, _for_torchscript()(kernel), "CompositeExplicitAutograd")
    _libraries.append(library)


@contextmanager
def _for_torchscript() -> Generator[None]:
    """Context of a kernel whose error keeps its text: TorchScript wraps it in another error."""
    try:
        yield
    except (EmulatorError, RuntimeError, IndexError, ValueError) as error:  # PyTorch's are such
        show_text_as_own(error)
        raise


def _instances() -> Any:
    """The module of loaded programs, which needs the compiler; most processes never do."""
    return import_module("trnsim.torch.traces.instances")


def _load(program: Tensor, is_lazy: bool, is_async: bool) -> int:
    """The number of a new instance of a program."""
    number: int = _instances().load(program, is_lazy=is_lazy, is_async=is_async)
    return number


def _forward(
    program: Tensor, weights: list[Tensor], inputs: list[Tensor], is_batched: bool, instance: int
) -> list[Tensor]:
    """The outputs of an instance."""
    loaded = _instances().instance_of(instance, program)
    outputs: list[Tensor] = loaded.run(weights, inputs, is_batched=is_batched)
    return outputs


def _forward_with_states(
    program: Tensor,
    weights: list[Tensor],
    inputs: list[Tensor],
    states: list[Tensor],
    instance: int,
) -> list[Tensor]:
    """The outputs of an instance, then its new states."""
    loaded = _instances().instance_of(instance, program)
    outputs: list[Tensor] = loaded.run_with_states(weights, inputs, states)
    return outputs


def _load_rank(model: Any, start_nc: int, nc_count: int, rank: int, world: int) -> None:
    """Load the program `model` of a module as that of a rank of `world`, to cores of its own."""
    placement: Any = import_module("trnsim.torch.traces.placement")
    loaded = _instances().instance_of(model.instance, model.program)
    loaded.place(placement.placement_of(start_nc, nc_count))
    loaded.join_ranks(rank, world)


def _load_shards(checkpoint: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    """The tensors of each rank on the core of its number."""
    names: Any = import_module("trnsim.torch.device_name")
    return [
        {name: tensor.detach().to(f"{names.DEVICE_TYPE}:{rank}") for name, tensor in shard.items()}
        for rank, shard in enumerate(checkpoint)
    ]


def _ranks_of(program: Tensor, metaneff: Tensor, local: int, world: int) -> Any:
    """The programs of ranks of this process."""
    module: Any = import_module("trnsim.torch.traces.rank_programs")
    return module.ranks_of(program, metaneff, local, world)


def _are_ranks_initialized(program: Tensor, metaneff: Tensor, local: int, world: int) -> Any:
    return _ranks_of(program, metaneff, local, world).is_initialized()


def _initialize_ranks(
    program: Tensor,
    metaneff: Tensor,
    local: int,
    world: int,
    states: list[dict[str, Tensor]],
    weights: list[dict[str, Tensor]],
    start_rank: int,
) -> None:
    """Give each rank its states and weights."""
    _ranks_of(program, metaneff, local, world).initialize(states, weights, start_rank)


def _mock_ranks(program: Tensor, metaneff: Tensor, local: int, world: int, mock: bool) -> None:
    """Let ranks without weights return zeros, or no more."""
    _ranks_of(program, metaneff, local, world).is_mocked = mock


def _run_ranks(
    program: Tensor, metaneff: Tensor, local: int, world: int, inputs: list[list[Tensor]]
) -> list[list[Tensor]]:
    """The outputs of each rank on its core."""
    outputs: list[list[Tensor]] = _ranks_of(program, metaneff, local, world).run(inputs)
    return outputs


def _run_ranks_alike(
    program: Tensor, metaneff: Tensor, local: int, world: int, inputs: list[Tensor]
) -> list[Tensor]:
    """The outputs of rank 0 on the host, for inputs that all ranks get."""
    first, *_ = _run_ranks(program, metaneff, local, world, [inputs] * local)
    return [output.cpu() for output in first]


def _write(content: Tensor, path: str) -> bool:
    """Write bytes to a file."""
    write(Path(path), bytes(content.numpy()))
    return True


def _savable(program: Tensor) -> Tensor:
    """The program with the instructions of the kernels that it calls, whose code is Python's.

    Raises:
        NotModelled: for a kernel that has no stored form.
    """
    content = bytes(program.numpy())
    if _KERNEL_CALL not in content:
        return program.clone()  # an operator's result is no alias of its operand
    stored: Any = import_module("trnsim.torch.traces.stored").StoredProgram.from_bytes(content)
    embedding: Any = import_module("trnsim.torch.traces.kernels.embedding")
    saved: bytes = embedding.with_kernels(stored).to_bytes()
    return torch.frombuffer(bytearray(saved), dtype=torch.uint8)
