"""Loaded programs of this process: each has a core, and its weights lie there.

A module that is saved, frozen or copied keeps the number of its instance; in another process the
number is unknown, and its program is loaded under it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.compiler import Flags
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.device.compiled_graph import record_graph
from trnsim.device.device_core import device_core, target
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.formatting import counted
from trnsim.lower import memory_plan
from trnsim.torch.api.memory import place
from trnsim.torch.aten.spec import tensor_text
from trnsim.torch.compile.compiler import graph_runner
from trnsim.torch.compile.fx_import import import_graph
from trnsim.torch.compile.host_run import cpu_function
from trnsim.torch.compile.program_run import ProgramRun
from trnsim.torch.device_name import DEVICE_TYPE
from trnsim.torch.traces.batches import in_batches
from trnsim.torch.traces.casts import cast_module
from trnsim.torch.traces.communicators import Communicator, communicator
from trnsim.torch.traces.exchanges import Groups, replica_groups, with_exchanges
from trnsim.torch.traces.fx_program import graph_module
from trnsim.torch.traces.placement import Placement, default_placement
from trnsim.torch.traces.stored import HOST, StoredProgram, StoredTensor

_NUMBER_BITS: Final = 62
_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API for Inference, Fixed Input Shapes"
_RANKS_SOURCE: Final = "neuronx-distributed trace/trace.py, parallel_model_load"


class LoadedProgram:
    """A loaded program.

    Attributes:
        owner: the tensor of the program's bytes in the module that runs it; None before a module
            takes the instance.
    """

    def __init__(self, program: StoredProgram) -> None:
        self.program = program
        self.owner: Tensor | None = None
        self._placement: Placement | None = None
        self._weights: dict[int, list[Tensor]] = {}
        """Weights and states on each core."""
        self._lock = threading.Lock()
        self._loading: threading.Thread | None = None
        self._rank: tuple[int, int] | None = None
        """Its rank, and the number of ranks, where several run a program together."""
        self._communicator = communicator(1)
        """The communicator of its exchanges with other ranks."""

    @property
    def placement(self) -> Placement:
        """Its cores; the first request decides them."""
        if self._placement is None:
            self._placement = default_placement.next_placement()
        return self._placement

    def place(self, placement: Placement) -> None:
        """Move the program to other cores; its states begin anew there."""
        self._placement = placement
        self.forget_weights()

    def join_ranks(self, rank: int, world: int, exchanges: Communicator | None = None) -> None:
        """Let the program exchange tensors, as a rank, with the programs of other ranks.

        Args:
            rank: the rank.
            world: number of ranks.
            exchanges: communicator of one model's ranks; None: all separately loaded programs of
                `world` ranks share one.

        Raises:
            BadInput: the rank is not in 0 to `world` - 1.
        """
        if not 0 <= rank < world:
            raise BadInput(
                f"rank {rank} of {world} for {self.program.origin}; legal: 0 to {world - 1}",
                fix="load one module for each rank",
                line=program_line(),
            )
        self._rank = rank, world
        self._communicator = exchanges or communicator(world)

    def forget_weights(self) -> None:
        """Take the weights off the cores; the next call puts the module's there."""
        self._weights.clear()

    def load(self, *, is_async: bool) -> None:
        """Choose the program's core, and build it in the background if `is_async`."""
        self._require_chip()
        if self.program.target == HOST:
            return
        self.placement  # noqa: B018  decides it
        if is_async:
            self._loading = threading.Thread(target=lambda: self._function, daemon=True)
            self._loading.start()

    def states(self) -> list[Tensor]:
        """The states on the first core that has any, as tensors of the host."""
        core_tensors = next(iter(self._weights.values()), [])
        return [core_tensors[weight].cpu() for weight, _ in self.program.aliases if core_tensors]

    def run(
        self, weights: Sequence[Tensor], inputs: Sequence[Tensor], *, is_batched: bool = False
    ) -> list[Tensor]:
        """The outputs for inputs of the host; outputs that replace states are not among them.

        Raises:
            BadInput: for inputs of other shapes or dtypes than were traced.
        """
        if self._loading is not None:
            self._loading.join()
            self._loading = None
        if is_batched:
            size = self.traced_batch()
            return in_batches(lambda parts: self._run_traced(weights, parts), size, inputs)
        return self._run_traced(weights, inputs)

    def run_with_states(
        self, weights: Sequence[Tensor], inputs: Sequence[Tensor], states: Sequence[Tensor]
    ) -> list[Tensor]:
        """The outputs for inputs and states of the host, then the new states.

        Raises:
            BadInput: for inputs or states of other shapes or dtypes than were traced.
        """
        self._check_states(states)
        return self._run_traced(weights, inputs, states)

    def run_resident(self, tensors: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, on the device, for weights and states that lie there and stay the caller's.

        New states replace the values of the old ones.

        Raises:
            BadInput: for inputs of other shapes or dtypes than were traced.
        """
        self._require_chip()
        self._check_inputs(inputs)
        core = self.placement.next_core()
        with torch.no_grad(), self._lock, self._running():
            arguments = [tensor.detach().to(f"{DEVICE_TYPE}:{core}") for tensor in inputs]
            outputs = self._function(*tensors, *arguments)
            state_outputs = {output for _, output in self.program.aliases}
            for weight, output in self.program.aliases:
                tensors[weight].copy_(outputs[output])
            return [value for number, value in enumerate(outputs) if number not in state_outputs]

    def resident(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """The program's weights and states by their names, on its core.

        Raises:
            BadInput: for tensors that lack one, or have it in another form.
        """
        core = self.placement.next_core()
        absent_names = [name for name in self.program.weights if name not in tensors]
        if absent_names:
            raise BadInput(
                f"{self.program.origin} has the weights {', '.join(absent_names[:5])}, which are "
                f"not among {', '.join(list(tensors)[:5]) or 'no tensors'}",
                fix="give each rank its part of the model's state_dict, by the same names",
                source=_RANKS_SOURCE,
                line=program_line(),
            )
        residents: list[Tensor] = []
        for name, form in self.program.weights.items():
            tensor = tensors[name].detach()
            self._check_weight(name, form, tensor)
            is_there = not tensor.is_cpu and tensor.get_device() == core
            if is_there and list(tensor.stride()) == form.stride:
                residents.append(tensor)
            else:
                residents.append(place(with_strides(tensor.cpu(), form), core))
        return residents

    def _check_weight(self, name: str, form: StoredTensor, tensor: Tensor) -> None:
        if not form.matches(tensor):
            raise BadInput(
                f"the weight {name} of {self.program.origin} is {_tensor_text(tensor)}; "
                f"legal: {form}",
                fix="give each rank its part of the traced model's weights, in their dtypes",
                line=program_line(),
            )

    def _check_states(self, states: Sequence[Tensor]) -> None:
        forms = list(self.program.weights.values())
        expected = [forms[weight] for weight, _ in self.program.aliases]
        pairs = zip(expected, states, strict=False)
        if len(states) != len(expected) or not all(form.matches(state) for form, state in pairs):
            raise BadInput(
                f"{self.program.origin} keeps the states "
                f"{', '.join(map(str, expected)) or 'none'}; "
                f"given {', '.join(map(_tensor_text, states)) or 'none'}",
                fix="let shared_state_buffer_preprocessor return the states of the bucket's model",
                source="aws-neuron-sdk, Autobucketing for Inference, Shared State Buffers",
                line=program_line(),
            )

    def traced_batch(self) -> int:
        """The batch size that was traced.

        Raises:
            BadInput: for inputs of different sizes in their first dimensions.
        """
        sizes = {(form.shape or [0])[0] for form in self.program.inputs.values()}
        if len(sizes) != 1 or 0 in sizes:
            raise BadInput(
                f"dynamic batching of {self.program.origin}, whose inputs begin with dimensions "
                f"{', '.join(map(str, sorted(sizes)))}; legal: the same batch size of all inputs",
                fix="trace with one batch size in the first dimension of every input",
                source="aws-neuron-sdk, PyTorch NeuronX Tracing API, Dynamic Batching",
                line=program_line(),
            )
        return sizes.pop()

    def _run_traced(
        self,
        weights: Sequence[Tensor],
        inputs: Sequence[Tensor],
        states: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        self._require_chip()
        self._check_inputs(inputs)
        if self.program.target == HOST:
            self._check_weights(weights)
            with torch.no_grad():
                return list(self._host_function(*weights, *inputs))
        core = self.placement.next_core()
        with torch.no_grad(), self._lock, self._running():
            core_tensors = self._weights_on(core, weights)
            for (weight, _), state in zip(self.program.aliases, states or (), strict=False):
                form = list(self.program.weights.values())[weight]
                core_tensors[weight] = place(with_strides(state, form), core)
            arguments = [tensor.detach().to(f"{DEVICE_TYPE}:{core}") for tensor in inputs]
            outputs = self._function(*core_tensors, *arguments)
            for weight, output in self.program.aliases:
                core_tensors[weight] = outputs[output]
            state_outputs = [output for _, output in self.program.aliases]
            results = [value for number, value in enumerate(outputs) if number not in state_outputs]
            new_states = [] if states is None else [outputs[number] for number in state_outputs]
            return [value.cpu() for value in (*results, *new_states)]

    def _weights_on(self, core: int, weights: Sequence[Tensor]) -> list[Tensor]:
        """The weights on a core; the first call for the core copies them there."""
        core_tensors = self._weights.get(core)
        if core_tensors is None:
            self._check_weights(weights)
            core_tensors = [place(tensor.detach(), core) for tensor in weights]
            self._weights[core] = core_tensors
        return core_tensors

    def _check_weights(self, weights: Sequence[Tensor]) -> None:
        """Refuse weights of another number or form than the program's."""
        expected = list(self.program.weights.items())
        if len(weights) != len(expected):
            raise BadInput(
                f"{self.program.origin} has {len(expected)} weights; the module has {len(weights)}",
                fix="do not trust the file; or trace the model again",
            )
        for (name, form), tensor in zip(expected, weights, strict=True):
            if not form.matches(tensor) or list(tensor.stride()) != form.stride:
                raise BadInput(
                    f"the weight {name} of {self.program.origin} is {_tensor_text(tensor)}; legal: "
                    f"{form} of strides {form.stride}",
                    fix="replace_weights with weights of the traced model's shapes and dtypes",
                )

    @cached_property
    def _host_function(self) -> Callable[..., Any]:
        """The program as a function of tensors of the host."""
        return cpu_function(with_exchanges(graph_module(self.program, "cpu"), self._exchange))

    @cached_property
    def _function(self) -> Callable[..., Any]:
        """The program as a function of tensors on the device."""
        flags = Flags.parse(self.program.flags, "flags of a traced program")
        module = graph_module(self.program, DEVICE_TYPE)
        imported = import_graph(module, replica_groups(module))
        graph = apply_casts(imported.graph, flags)
        weights = frozenset(
            number for number, name in imported.names.items() if name.startswith("weight_")
        )
        compiled = record_graph(
            "trace",
            imported.inputs,
            graph,
            memory_plan(graph, imported.names),
            imported.operators,
            imported.missing,
            flags,
            weights,
        )
        module = with_exchanges(module, self._exchange)
        run = ProgramRun(compiled, module, imported)
        return graph_runner(cast_module(module, flags), lambda _: run, None)

    def _running(self) -> AbstractContextManager[None]:
        """Context of a run of a rank's program."""
        if self._rank is None:
            return nullcontext()
        return self._communicator.running(self._rank[0])

    def _exchange(
        self, name: str, groups: Groups, arguments: tuple[Any, ...], tensor: Tensor
    ) -> Tensor:
        """The result of an exchange with the programs of the other ranks.

        Raises:
            BadInput: for a program that was not loaded as one of as many ranks.
        """
        count = sum(map(len, groups))
        if self._rank is None or self._rank[1] != count:
            loaded_as = "one" if self._rank is None else f"one of {self._rank[1]} ranks"
            raise BadInput(
                f"{self.program.origin}, exchanges tensors with {count} ranks, and was loaded as "
                f"{loaded_as}",
                fix="neuronx_distributed.trace.parallel_model_load loads the modules of all ranks",
                source=_RANKS_SOURCE,
                line=program_line(),
            )
        return self._communicator.exchange(self._rank[0], name, groups, arguments, tensor)

    def _check_inputs(self, inputs: Sequence[Tensor]) -> None:
        expected = list(self.program.inputs.items())
        for (name, form), tensor in zip(expected, inputs, strict=False):
            if not (_has_elements(tensor) and form.matches(tensor)):
                raise BadInput(
                    f"{name} is {_tensor_text(tensor)}; legal: {form}, the shape and dtype that "
                    f"{self.program.origin} was given",
                    fix=_input_fix(name, form, tensor),
                    source=_SOURCE,
                    line=program_line(),
                )
        if len(expected) != len(inputs):
            raise BadInput(
                f"{self.program.origin} takes {len(expected)} tensors; given {len(inputs)}",
                fix=f"call it with {', '.join(self.program.inputs) or 'none'}",
                line=program_line(),
            )

    def _require_chip(self) -> None:
        """Refuse a program of another chip, or another number of cores, than this process has."""
        if self.program.target == HOST:
            return
        process_chip = target().name, device_core().physical_cores
        if (self.program.target, self.program.cores) != process_chip:
            raise BadInput(
                f"{self.program.origin}, was compiled for {self.program.target} with "
                f"{counted(self.program.cores, 'NeuronCore')} a device; this process has "
                f"{process_chip[0]} with {process_chip[1]}",
                fix=f"NEURON_PLATFORM_TARGET_OVERRIDE={self.program.target} and "
                f"NEURON_LOGICAL_NC_CONFIG={self.program.cores} before the program starts, or "
                "trace it again",
            )


def with_strides(tensor: Tensor, form: StoredTensor) -> Tensor:
    """A copy of a tensor on the host, with the strides of a program's tensor."""
    copy = torch.empty_strided(form.shape, form.stride, dtype=tensor.dtype, device="cpu")
    return copy.copy_(tensor.detach())


def _input_fix(name: str, form: StoredTensor, tensor: object) -> str:
    """The fix for an input that is no tensor, has no elements in memory, or has another form."""
    if not isinstance(tensor, Tensor):
        return f"pass a tensor for {name}"
    if not _has_elements(tensor):
        return f"{name}.to_dense()" if not tensor.is_meta else "make the tensor on the CPU"
    if list(tensor.shape) == form.shape:
        return f"{name}.to(torch.{form.dtype}), or trace it with this dtype"
    if list(tensor.shape)[1:] == form.shape[1:] and form.shape:
        return (
            "torch_neuronx.dynamic_batch(traced) for other batch sizes, pad the input, or trace it "
            "with this shape too (torch_neuronx.bucket_model_trace)"
        )
    return "pad the input, or trace it with this shape too (torch_neuronx.bucket_model_trace)"


def _has_elements(value: object) -> bool:
    """True for a tensor with elements in memory; TorchScript passes None for a missing one."""
    return isinstance(value, Tensor) and not value.is_meta and value.layout is torch.strided


def _tensor_text(tensor: object) -> str:
    if not isinstance(tensor, Tensor):
        return repr(tensor)
    layout = "" if tensor.layout is torch.strided else f" of {tensor.layout}"
    place = "" if tensor.is_cpu else f" on {tensor.device}"
    return f"{tensor_text(tensor)}{layout}{place}"


_instances: Final[dict[int, LoadedProgram]] = {}
_copies: Final[dict[tuple[int, int], LoadedProgram]] = {}
"""Instances of further modules with the number of another module, by number and storage."""
_lock: Final = threading.Lock()


def load(program: Tensor, *, is_lazy: bool = False, is_async: bool = False) -> int:
    """The number of a new instance of a stored program; a lazy one has no core yet.

    Raises:
        BadInput: for bytes that are no program, and for a program of another chip.
    """
    instance = LoadedProgram(_read(program))
    if not is_lazy and not loading.is_off:
        instance.load(is_async=is_async)
    number = secrets.randbits(_NUMBER_BITS)
    _instances[number] = instance
    return number


def instance_of(number: int, program: Tensor) -> LoadedProgram:
    """The instance of a number; a program of another process is loaded under it.

    A frozen module has its number in its file. The first module with a number takes the instance;
    each further module that is read from the file has an instance of its own, identified by the
    storage of its program.
    """
    with _lock:
        shared = _instances.get(number)
        if shared is None:
            shared = _instances[number] = LoadedProgram(_read(program))
        if shared.owner is None:
            shared.owner = program
        address = storage_address(program)
        if address == storage_address(shared.owner):
            return shared
        key = number, address
        if key not in _copies:
            _copies[key] = LoadedProgram(_read(program))
            _copies[key].owner = program
        return _copies[key]


def storage_address(program: Tensor) -> int:
    """The address of a program's storage, unique while an instance keeps the program."""
    storage: Any = program.untyped_storage()
    address: int = storage._cdata  # noqa: SLF001  PyTorch's name
    return address


def _read(program: Tensor) -> StoredProgram:
    if program.dtype is not torch.uint8 or program.dim() != 1 or not program.is_cpu:
        raise BadInput(
            f"a traced program in {_tensor_text(program)}; legal: bytes",
            fix="do not trust the file; or trace the model again",
        )
    return StoredProgram.from_bytes(bytes(program.numpy()))


class _Loading:
    """The loading of modules to their cores when they are built or read from a file.

    Attributes:
        is_off: True while modules are loaded by their first run instead.
    """

    is_off = False

    @contextmanager
    def off(self) -> Generator[None]:
        """Context in which modules are loaded by their first run."""
        was_off, self.is_off = self.is_off, True
        try:
            yield
        finally:
            self.is_off = was_off


loading: Final = _Loading()
