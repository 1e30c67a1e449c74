"""`torch.compile(backend="neuron")`: forward and backward graphs, fused, with one time each.

PyTorch traces the program and splits it into a forward and a backward graph. Each becomes one graph
of ours, so that chains of operators share kernels, and its memory is planned. `graphs()` says what
was compiled and why anew: a new shape compiles everything again, which is what AWS's compiler takes
minutes for. A graph that PyTorch traced with symbolic sizes is compiled for each size that comes.

Values are computed as in eager mode, by the host: see `host_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from torch import Tensor, fx

from trnsim.lower import memory_plan
from trnsim.profile.words import bytes_words
from trnsim.torch import pytorch
from trnsim.torch.api.cores import target
from trnsim.torch.api.memory import core_memory
from trnsim.torch.aten.spec import Spec
from trnsim.torch.compile.compiled_graph import CompiledGraph
from trnsim.torch.compile.fx_import import Imported, import_graph, is_lowered
from trnsim.torch.compile.host_run import on_host
from trnsim.torch.dispatch.exact import mode
from trnsim.torch.dispatch.launches import in_graph
from trnsim.torch.faults import OutOfDeviceMemory, program_line
from trnsim.torch.recording import recordings, without_recording

_ADVICE: Final = (
    "every new shape is compiled again, which takes AWS's compiler minutes: pad inputs to a few\n"
    "lengths (buckets). torch._dynamo.mark_dynamic spares PyTorch's tracing, not this compilation."
)


_ROOM: Final = Path(__file__).parents[1]
_TRACED: Final = ("custom_ops.py", "launches.py", "whereabouts.py")
"""Where a program's own calls, and its modules, pass on their way into a graph."""
_NOT_TRACED: Final = (
    *(_ROOM.parent / room for room in ("dtypes", "graph", "isa", "lower", "memory", "timing")),
    *(path for path in _ROOM.rglob("*.py") if path.name not in _TRACED),
)
"""What computes eager calls, which PyTorch's compiler meets where a graph breaks."""

_graphs: list[CompiledGraph] = []


def graphs() -> tuple[CompiledGraph, ...]:
    """What was compiled in this process, in order."""
    return tuple(_graphs)


def report() -> str:
    """The compiled graphs in words: sizes, memory, what is missing, and why each was made."""
    lines: list[str] = []
    for one in _graphs:
        shapes = ", ".join(str(list(spec.shape)) for spec in one.inputs)
        plan = one.plan
        lines.append(f"{one.name}: {len(one.operators)} operators; {one.reason}")
        lines.append(f"  inputs   {shapes}")
        lines.append(
            f"  memory   {bytes_words(plan.peak_bytes)} at most, "
            f"{bytes_words(plan.input_bytes)} of it inputs"
        )
        lines.append(f"  arena    {plan.arena_words()}")
        lines += [f"  on host  {why}" for why in one.missing]
    if any(" is " in one.reason for one in _graphs):
        lines += ["", _ADVICE]
    return "\n".join(lines) or "nothing was compiled"


def __getattr__(name: str) -> Callable[..., Any]:
    """The entry point, which PyTorch asks for before it traces anything for us.

    Only then may its compiler be loaded, which takes a second, and told what not to trace.
    """
    if name != "compile_graph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    pytorch.make_opaque(in_graph)
    pytorch.never_trace(_NOT_TRACED)
    return _compile_graph


def _compile_graph(module: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    """What `torch.compile(backend="neuron")` calls."""
    split: Any = pytorch.split_by_autograd(
        partial(_compiled, kind="forward"), partial(_compiled, kind="backward"), is_lowered
    )
    compiled: Callable[..., Any] = split(module, inputs)
    return compiled


def _compiled(module: fx.GraphModule, inputs: Sequence[Any], kind: str) -> Callable[..., Any]:
    """The function that runs a graph; what it is for fixed sizes is known now, else when called."""
    seen = pytorch.results_seen() if kind == "forward" else None
    if all(isinstance(value, Tensor) for value in inputs):
        one = _made(import_graph(module), kind)
        return pytorch.boxed(_runner(module, lambda _: one, seen))
    made: dict[tuple[Any, ...], CompiledGraph] = {}

    def for_sizes(args: tuple[Any, ...]) -> CompiledGraph:
        key = tuple(tuple(a.shape) if isinstance(a, Tensor) else a for a in args)
        if key not in made:
            made[key] = _made(import_graph(pytorch.with_sizes_of(module, args)), kind)
        return made[key]

    return pytorch.boxed(_runner(module, for_sizes, seen))


def _runner(
    module: fx.GraphModule,
    graph_for: Callable[[tuple[Any, ...]], CompiledGraph],
    seen: int | None,
) -> Callable[..., Any]:
    """What computes the values and tells recordings which graph ran; `seen` as for `on_host`."""
    whole = on_host(module, seen)

    def run(*args: Any) -> Any:
        one = graph_for(args)
        core = next((a.get_device() for a in args if isinstance(a, Tensor) and not a.is_cpu), 0)
        _require_memory(one, core)
        with pytorch.profiler_scope(one.name):
            is_whole = mode.kind == "fast" and not mode.is_stochastic
            with without_recording():  # its operators are timed as this graph
                found = (whole if is_whole else module)(*args)
            for recording in recordings:
                recording.note_call(one, core)
        return found

    return run


def _made(imported: Imported, kind: str) -> CompiledGraph:
    number = sum(one.name.startswith(kind) for one in _graphs)
    one = CompiledGraph(
        f"{kind}-{number}",
        imported.inputs,
        imported.graph,
        memory_plan(imported.graph, imported.names),
        imported.operators,
        imported.missing,
        _reason(kind, imported),
    )
    _graphs.append(one)
    return one


def _require_memory(one: CompiledGraph, core: int) -> None:
    """Refuse a graph whose tensors the core has no room for, beside all that lives there.

    Raises:
        OutOfDeviceMemory: with the table of what the graph holds at its peak.
    """
    memory = core_memory(core)
    needed = memory.live_bytes + one.plan.fresh_bytes
    memory.peak_bytes = max(memory.peak_bytes, min(needed, memory.capacity_bytes))
    if needed > memory.capacity_bytes:
        raise OutOfDeviceMemory(
            f"{one.name} needs {bytes_words(one.plan.fresh_bytes)} of HBM beside the "
            f"{bytes_words(memory.live_bytes)} in use; neuron:{core} has "
            f"{bytes_words(memory.capacity_bytes)} ({target().name}). At its peak it holds\n"
            f"{one.plan.table()}",
            fix="a smaller batch, activation checkpointing, or a sharded model",
            source=memory.source,
            line=program_line(),
        )


def _reason(kind: str, imported: Imported) -> str:
    """Why a graph is new: the same operators were compiled for other inputs, or never."""
    for one in reversed(_graphs):
        if one.name.startswith(kind) and one.operators == imported.operators:
            for place, (old, new) in enumerate(zip(one.inputs, imported.inputs, strict=False)):
                if old != new:
                    return (
                        f"input {place} was {_words(old)} in {one.name} and is {_words(new)} here"
                    )
            return f"as {one.name}, for another function"
    return "the first of its kind"


def _words(spec: Spec) -> str:
    return f"{str(spec.dtype).removeprefix('torch.')}{list(spec.shape)}"
