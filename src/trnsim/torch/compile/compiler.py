"""The backend of `torch.compile(backend="neuron")`.

PyTorch traces the program and splits it into a forward and a backward graph. Each becomes a trnsim
graph, whose fused operators are timed and whose memory is planned. `report()` lists the compiled
graphs and the reason for each: a new shape compiles everything again, which takes AWS's compiler
minutes. A graph with symbolic sizes is compiled for each size that occurs.

The host computes values, as in eager mode: see `host_run`. In exact numerics the timed program
computes them: see `program_run`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from torch import Tensor, fx

from trnsim.compiler import Flags
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.device.call_log import note, without_recording
from trnsim.device.compiled_graph import compiled_graphs, graphs_text, record_graph, require_room
from trnsim.device.device_core import require_same_cores, target
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.numerics import mode
from trnsim.lower import memory_plan
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered
from trnsim.torch.compile.host_run import host_function
from trnsim.torch.compile.program_run import ProgramRun
from trnsim.torch.compile.refused import (
    CompilerWarning,
    dynamic_refusals,
    raise_or_warn,
    refusals_of_graph,
)
from trnsim.torch.compile.written_out import written_out
from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.dispatch import exact
from trnsim.torch.dispatch.launches import call_in_graph
from trnsim.torch.scope_tracker import scope_tracker

_ADVICE: Final = (
    "every new shape is compiled again, which takes AWS's compiler minutes: pad inputs to a few\n"
    "lengths (buckets). torch._dynamo.mark_dynamic spares PyTorch's tracing, not this compilation."
)


_ROOM: Final = Path(__file__).parents[1]
"""The folder trnsim/torch."""
_TRACED_FILES: Final = ("custom_ops.py", "kernel_launcher.py", "launches.py", "scope_tracker.py")
"""Files that PyTorch's compiler has to trace: calls and modules of the program pass there."""
# Folders of trnsim that compute eager calls.
_ROOMS: Final = ("compiler", "device", "dtypes", "graph", "isa", "lower", "memory", "timing")
_UNTRACED_FILES: Final = (
    *(_ROOM.parent / room for room in _ROOMS),
    *(path for path in _ROOM.rglob("*.py") if path.name not in _TRACED_FILES),
)
"""Files that compute eager calls, which PyTorch's compiler meets where a graph breaks."""


def report() -> str:
    """The compiled graphs as text, with advice about graphs that were compiled again."""
    # The reason is "input 0 was ... and is ... here" if a graph was compiled for a new shape.
    is_recompiled = any(" is " in program.reason for program in compiled_graphs())
    return f"{graphs_text()}\n\n{_ADVICE}" if is_recompiled else graphs_text()


def __getattr__(name: str) -> Callable[..., Any]:
    """The attribute `compile_graph`, which PyTorch looks up before it traces for this backend.

    PyTorch's compiler is loaded here, which takes a second, and told which files not to trace.
    """
    if name != "compile_graph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    pytorch.make_opaque(call_in_graph)
    pytorch.never_trace(_UNTRACED_FILES)
    pytorch.never_compile(exact)
    return _compile_graph


def _compile_graph(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """The compiler that `torch.compile(backend="neuron")` calls, with AWS's flags as options.

    Raises:
        BadInput: for an option that is no flag of neuronx-cc, or an illegal value of a flag.
    """
    flags = Flags.of_options(options or {})
    for message in flags.notes:  # on flags without effect
        warnings.warn(message, CompilerWarning, stacklevel=2)
    with written_out():
        compile_split: Any = pytorch.split_by_autograd(
            partial(_compiled_function, kind="forward", flags=flags),
            partial(_compiled_function, kind="backward", flags=flags),
            is_lowered,
        )
        compiled: Callable[..., Any] = compile_split(module, inputs)
    return compiled


def _compiled_function(
    module: fx.GraphModule, inputs: Sequence[Any], kind: str, flags: Flags
) -> Callable[..., Any]:
    """The function that runs a graph; a graph with symbolic sizes is compiled when called."""
    writable_results = pytorch.writable_results() if kind == "forward" else None
    if all(isinstance(value, Tensor) for value in inputs):
        constant_indices = pytorch.constant_inputs() if kind == "forward" else ()
        program = _compile_program(module, kind, flags, constant_indices)
        return pytorch.boxed_function(graph_runner(module, lambda _: program, writable_results))
    if kind == "forward":
        raise_or_warn(dynamic_refusals(module)[:1])
    programs: dict[tuple[Any, ...], ProgramRun] = {}

    def program_for_sizes(args: tuple[Any, ...]) -> ProgramRun:
        key = tuple(tuple(a.shape) if isinstance(a, Tensor) else a for a in args)
        if key not in programs:
            sized_module = pytorch.with_sizes_of(module, args)
            programs[key] = _compile_program(sized_module, kind, flags)
        return programs[key]

    return pytorch.boxed_function(graph_runner(module, program_for_sizes, writable_results))


def graph_runner(
    module: fx.GraphModule,
    program_for: Callable[[tuple[Any, ...]], ProgramRun],
    writable_results: int | None,
) -> Callable[..., Any]:
    """The function that computes and records a graph; `writable_results` as for `host_function`."""
    run_on_host = host_function(module, writable_results)

    def run(*args: Any) -> Any:
        program = program_for(args)
        graph = program.compiled_graph
        core = next((a.get_device() for a in args if isinstance(a, Tensor) and not a.is_cpu), 0)
        if pending_faults:
            strike_fault(core)
        require_room(graph, core, OutOfDeviceMemory)
        with pytorch.profiler_scope(graph.name):
            with without_recording():  # the graph is recorded in place of its operators
                if mode.kind == "exact":
                    results = program(args, core)
                else:
                    # Otherwise the device's kernels compute it operator by operator.
                    is_whole = mode.kind == "fast" and not mode.is_stochastic
                    results = (run_on_host if is_whole else module)(*args)
            note(graph, core, scope_tracker.scope)
        return results

    return run


def _constant_bytes(module: fx.GraphModule) -> int:
    """The bytes of a graph's constant tensors that are not on the device already."""
    names = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    constants = [operator.attrgetter(name)(module) for name in names]
    return sum(
        tensor.nbytes for tensor in constants if isinstance(tensor, Tensor) and tensor.is_cpu
    )


def _compile_program(
    module: fx.GraphModule, kind: str, flags: Flags, constant_indices: Sequence[int] = ()
) -> ProgramRun:
    imported = import_graph(module)
    raise_or_warn(refusals_of_graph(imported, target().name, flags))
    require_same_cores(flags)
    graph = apply_casts(imported.graph, flags)
    plan = memory_plan(graph, imported.names)
    numbers = list(imported.names)
    weights = frozenset(numbers[index] for index in constant_indices if index < len(numbers))
    operators, missing = imported.operators, imported.missing
    compiled_graph = record_graph(
        kind,
        imported.inputs,
        graph,
        plan,
        operators,
        missing,
        flags,
        weights,
        constants=_constant_bytes(module),
    )
    return ProgramRun(compiled_graph, module, imported)
