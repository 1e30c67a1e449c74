"""`torch_neuronx.xla_impl.trace`: tracing in the steps that neuronx-distributed takes.

A compiled program and a protobuf of HLO are stored programs here, and a flattener is the nesting
of the module's arguments, so that they can be sent between processes.

Source: neuronx-distributed trace/trace.py and trace/model_builder.py, which take them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn

from torch import Tensor, nn

from trnsim.device.program_line import program_line
from trnsim.errors import NotModelled
from trnsim.files import read_bytes
from trnsim.torch.traces.kernels.embedding import with_kernels
from trnsim.torch.traces.metaneff import MetaNeff
from trnsim.torch.traces.script_module import PART, script_module
from trnsim.torch.traces.stored import MAGIC, StoredProgram
from trnsim.torch.traces.structure import NestedValue, forward_text
from trnsim.xla.neuronx import list_forms
from trnsim.xla.neuronx.buckets import BucketModelConfig, Buckets, bucket_module
from trnsim.xla.neuronx.program_modules import HloModuleProto, compile_content
from trnsim.xla.neuronx.trace import compile_function, result_structure, traced_program
from trnsim.xla.neuronx.workdir import PROGRAM, check_workdir, write_workdir

_SOURCE: Final = "neuronx-distributed trace/model_builder.py"


class Flattener(NamedTuple):
    """The conversion of a module's arguments to a list of tensors, and of a list to its results.

    Attributes:
        title: the name of the module's class.
    """

    title: str
    parameters: list[str]
    arguments: list[NestedValue]
    result: NestedValue

    def forward(self, body: list[str]) -> str:
        """The text of its method, which makes `r` of `a` in the lines of `body`."""
        return forward_text(self.parameters, self.arguments, self.result, body)


class HloArtifacts(SimpleNamespace):
    """A traced graph and its artifacts, by name."""


@dataclass
class NeffArtifacts:
    """The result of compiling a traced graph: the name of the program's file (a NEFF)."""

    neff_filename: str


def _trace(  # pyright: ignore[reportUnusedFunction]  a name of torch_neuronx
    func: Any,
    example_inputs: Any,
    states: Any = None,
    input_output_aliases: Mapping[Tensor, int] | None = None,
    compiler_workdir: Any = None,
    compiler_args: Any = None,
    inline_weights_to_neff: bool = True,
    **options: Any,
) -> tuple[str, bytes, Flattener, None, dict[str, Tensor]]:
    """A program's file, its description, the flattener, None, and the weights by name."""
    del states, options
    folder = check_workdir(compiler_workdir or "compiler_workdir")
    compiled_trace = compile_function(
        func,
        example_inputs,
        input_output_aliases or {},
        compiler_args or "",
        are_weights_apart=not inline_weights_to_neff,
    )
    write_workdir(folder, compiled_trace.report, compiled_trace.program)
    function = compiled_trace.function
    flattener = Flattener(
        function.title, function.parameters, function.arguments, compiled_trace.result()
    )
    return str(folder / PROGRAM), b"", flattener, None, function.weights


def create_neuron_model(
    neff_filename: str,
    metaneff: bytes,
    flattener: Flattener,
    packer: Any,
    example_inputs: Any,
    input_output_aliases: Any,
    weights: Mapping[str, Tensor],
    *_: Any,
    **__: Any,
) -> Any:
    """The ScriptModule of a program's file and its weights.

    Raises:
        BadInput: for a file that `torch_neuronx.trace` did not write.
    """
    del metaneff, packer, example_inputs, input_output_aliases
    content = read_bytes(neff_filename)
    program = StoredProgram.from_bytes(content)
    program_weights = [weights[name] for name in program.weights]
    forward = flattener.forward([f"r = self.{PART}(a)"])
    return script_module(flattener.title, {PART: (content, program_weights)}, forward)


def create_bucket_model(
    models: Sequence[tuple[bytes, bytes]],
    bucket_config: BucketModelConfig,
    flattener: Flattener,
    packer: Any,
    weights: Mapping[str, Tensor],
    input_output_aliases: Any = None,
    *_: Any,
    **__: Any,
) -> Any:
    """The ScriptModule of one program for each bucket, which share their weights.

    Raises:
        BadInput: for programs that `torch_neuronx.trace` did not write.
    """
    del packer, input_output_aliases
    programs = [StoredProgram.from_bytes(content) for content, _ in models]
    bucket_weights = [[weights[name] for name in program.weights] for program in programs]
    buckets = Buckets(flattener.title, programs, bucket_weights)
    return bucket_module(buckets, flattener.forward, bucket_config)


def generate_hlo(
    func: Any,
    example_inputs: Any,
    input_output_aliases: Mapping[Tensor, int] | None = None,
    *_: Any,
    return_weights: bool = True,
    **__: Any,
) -> HloArtifacts:
    """A traced program in the place of HLO, and its artifacts.

    Weights of the model's state_dict are the program's; other tensors that it reads go with it.

    Raises:
        BadInput: as `torch_neuronx.trace`.
    """
    function, program = traced_program(func, example_inputs, input_output_aliases or {})
    program = with_kernels(program)
    in_checkpoint = set(func.state_dict()) if isinstance(func, nn.Module) else set[str]()
    states = {weight for weight, _ in program.aliases}
    constants = {
        name: value
        for place, (name, value) in enumerate(function.weights.items())
        if name not in in_checkpoint and place not in states
    }
    unread = [n for n, name in enumerate(function.inputs) if name not in program.inputs]
    metaneff = MetaNeff.of(program, constants)
    programs = import_module("trnsim.jax.by_name.libneuronxla.compile_calls")
    programs.other_graphs[MAGIC] = compile_content
    return HloArtifacts(
        hlo_module=HloModuleProto(program.to_bytes()),
        metaneff=metaneff,
        flattener=list_forms.Flattener(tuple(range(len(function.inputs))), unread or None),
        packer=list_forms.Packer.of(result_structure(function, program)),
        weights=dict(function.weights) if return_weights else None,
        weight_name_to_idx={
            tensor.name: index
            for index, tensor in enumerate(metaneff.input_tensors)
            if tensor.type == tensor.Type.INPUT_WEIGHT
        },
    )


def generate_neff(*_: Any, **__: Any) -> NoReturn:
    """Nothing.

    Raises:
        NotModelled: always.
    """
    raise NotModelled(
        "torch_neuronx.xla_impl.trace.generate_neff compiles HLO, which is not made here",
        fix="libneuronxla.neuron_xla_compile(hlo_module.SerializeToString(), flags), or "
        "torch_neuronx.trace(model, example_inputs), which traces and compiles",
        source=_SOURCE,
        line=program_line(),
    )
