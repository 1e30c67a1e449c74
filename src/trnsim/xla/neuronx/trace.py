"""`torch_neuronx.trace`: a function compiled for the chip, as a ScriptModule.

Its time, bound, memory and refusals are those of `trnsim compile`: the same graph is given to the
same compiler.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Tracing API for Inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from torch import Tensor, fx

from trnsim.arch import target as target_named
from trnsim.compiler import Flags
from trnsim.device.device_core import device_core
from trnsim.device.device_core import target as device_target
from trnsim.device.program_line import program_line
from trnsim.document.values import plain
from trnsim.errors import BadInput, SourceLine
from trnsim.torch.compile.fx_import import import_graph
from trnsim.torch.compile.refused import CompilerWarning
from trnsim.torch.models.model_graph import ModelGraph
from trnsim.torch.models.subjects import ModelReport, Subject, report_model
from trnsim.torch.traces.exchanges import replica_groups
from trnsim.torch.traces.fx_program import Calls, graph_module
from trnsim.torch.traces.instances import loading
from trnsim.torch.traces.script_module import PART, script_module
from trnsim.torch.traces.stored import StoredProgram, StoredTensor
from trnsim.torch.traces.structure import NestedValue, forward_text
from trnsim.torch.traces.tracing import TracedFunction, trace_function
from trnsim.user_warnings import warn
from trnsim.xla.neuronx.workdir import check_workdir, write_workdir

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API for Inference"


@dataclass(frozen=True)
class CompiledTrace:
    """A function that was traced and compiled.

    Attributes:
        report: the report of `trnsim compile`.
    """

    function: TracedFunction
    program: StoredProgram
    report: ModelReport

    def result(self) -> NestedValue:
        """The structure of the result, without the states."""
        return result_structure(self.function, self.program)

    def script_module(self) -> Any:
        """The ScriptModule that runs the program."""
        function = self.function
        call = [f"r = self.{PART}(a)"]
        text = forward_text(function.parameters, function.arguments, self.result(), call)
        parts = {PART: (self.program.to_bytes(), list(function.weights.values()))}
        return script_module(function.title, parts, text)


def result_structure(function: TracedFunction, program: StoredProgram) -> NestedValue:
    """The structure of a function's result, without the states of its program."""
    states = {output for _, output in program.aliases}
    result_places = [place for place in range(len(program.outputs)) if place not in states]
    positions = {place: position for position, place in enumerate(result_places)}
    return function.results.renumbered(positions)


def trace(
    func: Any,
    example_inputs: Any,
    *_: Any,
    input_output_aliases: Mapping[Tensor, int] | None = None,
    states: Any = None,
    compiler_workdir: str | Path | None = None,
    compiler_args: str | Sequence[str] | None = None,
    partitioner_config: Any = None,
    inline_weights_to_neff: bool = True,
    cpu_backend: bool = False,
) -> Any:
    """The ScriptModule of `func`, compiled for the chip of this process.

    Args:
        func: a module or a function.
        example_inputs: a tensor, a tuple of nested tensors, or tensors by names of parameters.
        *_: refused, as only the first two arguments may be passed by position.
        input_output_aliases: by each state of `func` (a buffer that stays on the core) the index of
            the output that replaces it after a call. These outputs are not returned.
        states: refused, as `input_output_aliases` names the states.
        compiler_workdir: a folder for the report.
        compiler_args: flags of neuronx-cc, after those of NEURON_CC_FLAGS.
        partitioner_config: a `PartitionerConfig`, where the host may compute operators.
        inline_weights_to_neff: False if weights can be replaced later.
        cpu_backend: True to compile for the chip that --target names, without a device.

    Raises:
        BadInput: for inputs, flags or aliases that are not legal.
        NotModelled: for aliases, weights apart or `cpu_backend` with a `partitioner_config`.
        CompilerRefusal: for a graph that neuronx-cc refuses, if TRNSIM_POLICY is chip.
        OutOfDeviceMemory: for a graph over the HBM of a NeuronCore.
    """
    _refuse_positional(_)
    _refuse_states(states)
    workdir = None if compiler_workdir is None else check_workdir(compiler_workdir)
    if partitioner_config is not None:
        options = {
            "compiler_args": compiler_args,
            "compiler_workdir": compiler_workdir,
            "input_output_aliases": input_output_aliases,
            "inline_weights_to_neff": inline_weights_to_neff,
            "cpu_backend": cpu_backend,
        }
        partitions = import_module("trnsim.xla.neuronx.partitions")  # it imports this module
        return partitions.partitioned_trace(func, example_inputs, partitioner_config, options)
    compiled_trace = compile_function(
        func,
        example_inputs,
        input_output_aliases or {},
        compiler_args or "",
        are_weights_apart=not inline_weights_to_neff,
        is_without_device=cpu_backend,
    )
    if workdir is not None:
        write_workdir(workdir, compiled_trace.report, compiled_trace.program)
    if not cpu_backend:
        return compiled_trace.script_module()
    with loading.off():
        return compiled_trace.script_module()


def compile_function(
    func: Any,
    example_inputs: Any,
    aliases: Mapping[Tensor, int],
    compiler_args: str | Sequence[str] = "",
    *,
    are_weights_apart: bool = False,
    is_without_device: bool = False,
) -> CompiledTrace:
    """`func`, traced and compiled for the device's chip, or for that of --target.

    Raises:
        BadInput: as `trace`.
    """
    flags = Flags.parse(compiler_args, "compiler_args", Flags.of_environment())
    chip = _chip(flags, is_without_device=is_without_device)
    _require_aliases(aliases)
    function = trace_function(func, example_inputs)
    state_places = _state_indices(function, aliases)
    program, report = compile_module(
        function.title,
        function.line,
        function.module,
        function.values,
        function.traced.names,
        function.weights,
        {name: StoredTensor.of(tensor) for name, tensor in function.inputs.items()},
        flags,
        chip,
    )
    stored_program = replace(program, aliases=state_places, are_weights_apart=are_weights_apart)
    return CompiledTrace(function, stored_program, report)


def traced_program(
    func: Any, example_inputs: Any, aliases: Mapping[Tensor, int]
) -> tuple[TracedFunction, StoredProgram]:
    """`func`, traced and not compiled; its states are in `aliases`, or else buffers it changes.

    The program lacks the inputs that nothing reads.

    Raises:
        BadInput: as `trace`.
    """
    _require_aliases(aliases)
    function = trace_function(func, example_inputs, are_writes_kept=not aliases)
    results = len(function.result_forms) - len(function.written)
    written_buffers = [[weight, results + index] for index, weight in enumerate(function.written)]
    tensors = zip(function.values[len(function.weights) :], function.inputs, strict=True)
    unread_inputs = {name for node, name in tensors if not node.users}
    if len(unread_inputs) == len(function.inputs):
        unread_inputs = set()
    values = [
        node
        for index, node in enumerate(function.values)
        if index < len(function.weights) or node.users or not unread_inputs
    ]
    calls = Calls(function.module, values)
    program = StoredProgram(
        title=function.title,
        traced_at=str(function.line or ""),
        target=device_target().name,
        cores=device_core().physical_cores,
        flags=[],
        weights={name: StoredTensor.of(tensor) for name, tensor in function.weights.items()},
        inputs={
            name: StoredTensor.of(tensor)
            for name, tensor in function.inputs.items()
            if name not in unread_inputs
        },
        calls=calls.calls,
        outputs=calls.outputs,
        aliases=[*_state_indices(function, aliases), *written_buffers],
        places=calls.places,
        are_weights_apart=True,
    )
    return function, program


def compile_stored(
    program: StoredProgram, flags: Flags, chip: str
) -> tuple[StoredProgram, ModelReport]:
    """A traced program with its figures, and the report of `trnsim compile` on it.

    Raises:
        BadInput: for content that no trace wrote.
    """
    module = graph_module(program, "cpu")
    imported_graph = import_graph(module, replica_groups(module))
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    names = dict(zip(inputs, (*program.weights, *program.inputs), strict=True))
    graph = ModelGraph.of(imported_graph, set(program.weights), names)
    report = report_model(Subject(program.title, graph), chip, flags)
    _warn_of_notes(report)
    compiled_trace = replace(
        program,
        target=report.program.target,
        cores=report.program.lnc,
        flags=_flag_words(flags),
        estimate=plain(report.as_dict()),
    )
    return compiled_trace, report


def compile_module(
    title: str,
    line: SourceLine | None,
    module: fx.GraphModule,
    values: list[fx.Node],
    names: Mapping[str, str],
    weights: Mapping[str, Tensor],
    inputs: dict[str, StoredTensor],
    flags: Flags,
    chip: str = "",
) -> tuple[StoredProgram, ModelReport]:
    """The program of a graph, and the report of `trnsim compile` on it.

    Args:
        title: the name of what was traced.
        line: the line that traced it.
        module: the graph.
        values: its weights, then its inputs.
        names: names of the graph's inputs, by the names of their nodes.
        weights: tensors that do not change from call to call, by name.
        inputs: the form of each input, by name.
        flags: the compiler's flags.
        chip: the chip; that of the device if it is empty.
    """
    constants = {node.name for node in values[: len(weights)] if node.op == "get_attr"}
    imported_graph = import_graph(module, replica_groups(module))
    graph = ModelGraph.of(imported_graph, {*weights, *constants}, names)
    report = report_model(Subject(title, graph), chip or device_target().name, flags)
    _warn_of_notes(report)
    calls = Calls(module, values)
    program = StoredProgram(
        title=title,
        traced_at=str(line or ""),
        target=report.program.target,
        cores=report.program.lnc,
        flags=_flag_words(flags),
        weights={name: StoredTensor.of(tensor) for name, tensor in weights.items()},
        inputs=inputs,
        calls=calls.calls,
        outputs=calls.outputs,
        places=calls.places,
        estimate=plain(report.as_dict()),
    )
    return program, report


def _refuse_states(states: Any) -> None:
    """Refuse `states`, which AWS does not document."""
    if states:
        raise BadInput(
            "torch_neuronx.trace(states=...), which AWS does not document; legal: None",
            fix="input_output_aliases={tensor: output index}",
            source=_SOURCE,
            line=program_line(),
        )


def _refuse_positional(arguments: tuple[Any, ...]) -> None:
    if arguments:
        raise BadInput(
            f"torch_neuronx.trace with {2 + len(arguments)} arguments by position; legal: func and "
            "example_inputs",
            fix="name the others: compiler_workdir=..., compiler_args=...",
            source=f"{_SOURCE}, Behavior Change",
            line=program_line(),
        )


def _chip(flags: Flags, *, is_without_device: bool) -> str:
    """The chip to compile for."""
    if not is_without_device:
        return device_target().name
    if not flags.target:
        raise BadInput(
            "torch_neuronx.trace(cpu_backend=True) without a chip; legal: compiler_args with "
            "--target",
            fix='compiler_args="--target trn2"',
            source=f"{_SOURCE}, cpu_backend",
            line=program_line(),
        )
    return target_named(flags.target).name


def _require_aliases(aliases: Any) -> None:
    entries = aliases.items() if isinstance(aliases, Mapping) else [(aliases, 0)]
    for tensor, output in entries:
        if not isinstance(tensor, Tensor) or not isinstance(output, int):
            text = f"a {type(aliases).__name__}"
            if isinstance(aliases, Mapping):
                text = f"{_kind(tensor)} with {_kind(output)}"
            raise BadInput(
                f"input_output_aliases is {text}; legal: a dictionary of tensors, each with the "
                "index of an output",
                fix="input_output_aliases={model.state: 1}",
                source=f"{_SOURCE}, input_output_aliases",
                line=program_line(),
            )


def _kind(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else repr(value)


def _state_indices(function: TracedFunction, aliases: Mapping[Tensor, int]) -> list[list[int]]:
    """For each state [its index among the weights, the index of the output that replaces it]."""
    places: list[list[int]] = []
    originals = list(function.originals)
    outputs = function.result_forms
    for tensor, output in aliases.items():
        weight = next((n for n, original in enumerate(originals) if original is tensor), None)
        if weight is None:
            raise BadInput(
                f"input_output_aliases has a tensor of shape {list(tensor.shape)} that "
                f"{function.title} does not read; legal: its parameters and buffers",
                fix="register it as a buffer of the model, and read it in forward",
                source=f"{_SOURCE}, input_output_aliases",
                line=program_line(),
            )
        if not 0 <= output < len(outputs):
            raise BadInput(
                f"input_output_aliases names output {output}; {function.title} returns "
                f"{len(outputs)} tensors",
                fix=f"an index from 0 to {len(outputs) - 1}",
                source=f"{_SOURCE}, input_output_aliases",
                line=program_line(),
            )
        form = StoredTensor.of(tensor)
        if (form.shape, form.dtype) != (outputs[output].shape, outputs[output].dtype):
            raise BadInput(
                f"output {output} of {function.title} is {outputs[output]}, and the state that it "
                f"replaces {form}; legal: the same shape and dtype",
                fix="return the whole new state",
                source=f"{_SOURCE}, input_output_aliases",
                line=program_line(),
            )
        places.append([weight, output])
    return places


def _warn_of_notes(report: ModelReport) -> None:
    """Warn of refusals, of flags without effect, and of operators that the chip does not have."""
    for note in report.compiler_notes:
        warn(f"{note}\n  TRNSIM_POLICY=chip makes refusals errors", CompilerWarning)
    if report.subject.model_graph.missing:
        warn(
            f"{report.subject.title} has operators that run on the host, and have no time: "
            f"{'; '.join(report.subject.model_graph.missing)}\n  fix: partitioner_config="
            "torch_neuronx.PartitionerConfig() puts them there on purpose",
            CompilerWarning,
        )


def _flag_words(flags: Flags) -> list[str]:
    """The compiler flags that change the program, as words of a command line."""
    words: list[str] = []
    if flags.auto_cast != "none":
        words = [f"--auto-cast={flags.auto_cast}", f"--auto-cast-type={flags.auto_cast_type}"]
    if flags.fp8_e4m3fn_as_e4m3:
        words.append("--experimental-unsafe-fp8e4m3fn-as-fp8e4m3")
    return words
