"""`partitioner_config` of `torch_neuronx.trace`: operators that the chip lacks run on the host.

The graph is cut into levels of operators of one kind, those of the chip and those of the host in
turn; each level is a program, and a traced module runs them in order.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Tracing API, Graph
Partitioner.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from torch import Tensor, fx, nn

from trnsim.compiler import Flags
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled
from trnsim.formatting import counted
from trnsim.torch.traces.fx_program import Calls
from trnsim.torch.traces.script_module import script_module
from trnsim.torch.traces.stored import HOST, StoredProgram, StoredTensor
from trnsim.torch.traces.structure import forward_text
from trnsim.torch.traces.tracing import TracedFunction, trace_function
from trnsim.xla.neuronx.analysis import Failure, call_key, failure_of, is_list_of_names
from trnsim.xla.neuronx.trace import compile_module
from trnsim.xla.neuronx.workdir import check_workdir, write_workdir

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API, Graph Partitioner"
_WHOLE_MODEL: Final = {
    "input_output_aliases": None,
    "inline_weights_to_neff": True,
    "cpu_backend": False,
}
"""Arguments of `torch_neuronx.trace` that a model in parts has only by their defaults."""
_TRACE_KWARGS: Final = ("compiler_args", "compiler_workdir", *_WHOLE_MODEL)
_IGNORED: Final = "additional_ignored_ops"
_logger: Final = logging.getLogger("Neuron")


class PartitionRefused(BadInput, ValueError):
    """A partition that a configuration does not permit."""


@dataclass(kw_only=True)
class PartitionerConfig:
    """Rules for dividing a model between the chip and the host.

    Attributes:
        trace_kwargs: arguments of `torch_neuronx.trace` for the chip's programs, by name.
        model_support_percentage_threshold: minimum share of operators that the chip computes.
        min_subgraph_size: minimum number of operators of a program; -1 for any.
        max_subgraph_count: maximum number of programs; -1 for any.
        ops_to_partition: operators for the host ("aten::sort"), also if the chip has them.
        analyze_parameters: arguments of `torch_neuronx.analyze`.
    """

    trace_kwargs: Mapping[str, Any] | None = None
    model_support_percentage_threshold: float = 0.5
    min_subgraph_size: int = -1
    max_subgraph_count: int = -1
    ops_to_partition: Collection[str] | None = None
    analyze_parameters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        share: Any = self.model_support_percentage_threshold
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            self._refuse("model_support_percentage_threshold", share, "a number from 0 to 1")
        for name in ("min_subgraph_size", "max_subgraph_count"):
            value = getattr(self, name)
            if not isinstance(value, int) or (value != -1 and value < 1):
                self._refuse(name, value, "-1, or from 1 on")
        trace_kwargs: Any = self.trace_kwargs
        if trace_kwargs is not None and not (
            isinstance(trace_kwargs, Mapping) and {*trace_kwargs} <= {*_TRACE_KWARGS}
        ):
            legal = f"a dictionary of {', '.join(_TRACE_KWARGS)}"
            self._refuse("trace_kwargs", trace_kwargs, legal)
        parameters: Any = self.analyze_parameters
        if not isinstance(parameters, Mapping | None):
            self._refuse("analyze_parameters", parameters, "a dictionary")
        lists = {"ops_to_partition": self.ops_to_partition or (), _IGNORED: self._ignored_operators}
        for name, names in lists.items():
            if not is_list_of_names(names):
                self._refuse(name, names, 'names in a list, such as ["aten::sort"]')

    @property
    def _ignored_operators(self) -> Any:
        return (self.analyze_parameters or {}).get(_IGNORED) or ()

    def _refuse(self, name: str, value: object, legal: str) -> None:
        raise PartitionRefused(
            f"PartitionerConfig({name}={value!r}); legal: {legal}",
            fix="leave it out",
            source=_SOURCE,
            line=program_line(),
        )


@dataclass
class _Level:
    """Operators that run together.

    Attributes:
        is_on_host: True if the host runs them.
        nodes: the operators, in order.
    """

    is_on_host: bool
    nodes: list[fx.Node] = field(default_factory=list[fx.Node])


def partitioned_trace(
    func: Any, example_inputs: Any, config: PartitionerConfig, options: Mapping[str, Any]
) -> Any:
    """The ScriptModule of `func`, of programs of the chip and of the host.

    Raises:
        PartitionRefused: where `config` does not permit the partition.
        NotModelled: for aliases, weights apart or `cpu_backend`.
    """
    if not isinstance(config, PartitionerConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        raise PartitionRefused(
            f"partitioner_config is a {type(config).__name__}; legal: a PartitionerConfig",
            fix="partitioner_config=torch_neuronx.PartitionerConfig()",
            source=_SOURCE,
            line=program_line(),
        )
    trace_options = {**options, **(config.trace_kwargs or {})}
    _refuse_whole_model(trace_options)
    folder = trace_options.get("compiler_workdir")
    workdir = None if folder is None else check_workdir(folder)
    function = trace_function(func, example_inputs)
    failures = _failures(function.module, config)
    _check_share(function, failures, config)
    levels = _levels(function.module, failures)
    _check_levels(levels, config)
    flags = Flags.parse(
        trace_options.get("compiler_args") or "", "compiler_args", Flags.of_environment()
    )
    return _Assembly(function, levels).module(flags, workdir)


def _refuse_whole_model(options: Mapping[str, Any]) -> None:
    """Refuse arguments that have no effect on a model in parts.

    Raises:
        NotModelled: for another value than the default.
    """
    for name, default in _WHOLE_MODEL.items():
        if (options[name] or None) != (default or None):
            raise NotModelled(
                f"torch_neuronx.trace with partitioner_config and {name}: a model in parts has "
                "none",
                fix=f"leave {name} out, or trace without partitioner_config",
                source=_SOURCE,
                line=program_line(),
            )


def _failures(module: fx.GraphModule, config: PartitionerConfig) -> dict[fx.Node, Failure]:
    """The operators for the host, each with the reason."""
    host_kinds = set(config.ops_to_partition or ())
    ignored_operators: set[str] = set((config.analyze_parameters or {}).get(_IGNORED) or ())
    failures: dict[fx.Node, Failure] = {}
    answers: dict[Hashable, Failure | None] = {}
    for node in module.graph.nodes:
        if not _is_operator(node):
            continue
        kind = str(node.target.name()).partition(".")[0]
        if kind in host_kinds:
            failures[node] = Failure("", "ops_to_partition names it")
        elif kind not in ignored_operators:
            key = call_key(node)
            if key not in answers:
                answers[key] = failure_of(node)
            failure = answers[key]
            if failure is not None:
                failures[node] = failure
    for node, failure in failures.items():
        _logger.info("%s runs on the host: %s", node.target, failure.reason)
    return failures


def _is_operator(node: fx.Node) -> bool:
    """True for a call of an operator; False for `getitem`, which takes a result of an operator."""
    return node.op == "call_function" and hasattr(node.target, "_schema")


def _check_share(
    function: TracedFunction, failures: Mapping[fx.Node, Failure], config: PartitionerConfig
) -> None:
    calls = [node for node in function.module.graph.nodes if _is_operator(node)]
    share = 1 - len(failures) / max(len(calls), 1)
    least_share = config.model_support_percentage_threshold
    if share < least_share:
        reasons = list(dict.fromkeys(failure.reason for failure in failures.values()))[:3]
        raise PartitionRefused(
            f"the chip computes {share:.0%} of the {counted(len(calls), 'operator')} of "
            f"{function.title}; "
            f"model_support_percentage_threshold={least_share:g} asks for {least_share:.0%}: "
            f"{'; '.join(reasons)}",
            fix="replace these operators, or lower the threshold",
            source=_SOURCE,
            line=program_line(),
        )


def _levels(module: fx.GraphModule, failures: Mapping[fx.Node, Failure]) -> list[_Level]:
    """The operators by levels: each reads only results of its own level and of earlier levels."""
    numbers: dict[fx.Node, int] = {}
    levels: dict[int, _Level] = {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        operands = [numbers[operand] for operand in node.all_input_nodes if operand in numbers]
        # getitem runs where its operand does
        is_on_host = node in failures if _is_operator(node) else bool(max(operands) % 2)
        number = max(operands, default=0)
        number += number % 2 != is_on_host
        numbers[node] = number
        levels.setdefault(number, _Level(is_on_host)).nodes.append(node)
    return [levels[number] for number in sorted(levels)]


def _check_levels(levels: Sequence[_Level], config: PartitionerConfig) -> None:
    least_operators, most_subgraphs = config.min_subgraph_size, config.max_subgraph_count
    if most_subgraphs != -1 and len(levels) > most_subgraphs:
        raise PartitionRefused(
            f"the model is cut into {len(levels)} subgraphs; max_subgraph_count={most_subgraphs}",
            fix="allow more, or replace operators that the chip lacks",
            source=_SOURCE,
            line=program_line(),
        )
    fewest = min((sum(map(_is_operator, level.nodes)) for level in levels), default=0)
    if least_operators != -1 and fewest < least_operators:
        raise PartitionRefused(
            f"a subgraph has {counted(fewest, 'operator')}; min_subgraph_size={least_operators}",
            fix="allow fewer, or name more operators in ops_to_partition",
            source=_SOURCE,
            line=program_line(),
        )


class _Assembly:
    """A traced function whose levels become programs."""

    def __init__(self, function: TracedFunction, levels: Sequence[_Level]) -> None:
        self._function = function
        self._levels = levels
        weights = list(function.weights)
        self._weights = dict(zip(function.values, weights, strict=False))
        self._places = {
            node: f"a[{index}]" for index, node in enumerate(function.values[len(weights) :])
        }
        """The expression of each value that a program gave, and of each input."""

    def module(self, flags: Flags, workdir: Path | None) -> Any:
        """The module of all programs."""
        parts: dict[str, tuple[bytes, list[Tensor]]] = {}
        body: list[str] = []
        for number, level in enumerate(self._levels):
            name = f"{'cpu' if level.is_on_host else 'neuron'}_{number}"
            program, input_nodes = self._program(level, name, flags, workdir)
            weights = [self._function.weights[weight] for weight in program.weights]
            parts[name] = program.to_bytes(), weights
            arguments = ", ".join(self._places[node] for node in input_nodes)
            body.append(f"r{number} = self.{name}(torch.jit.annotate(List[Tensor], [{arguments}]))")
            for index, node in enumerate(self._level_outputs(level)):
                self._places[node] = f"r{number}[{index}]"
        returned = ", ".join(self._expression(node) for node in _outputs(self._function.module))
        body.append(f"r = torch.jit.annotate(List[Tensor], [{returned}])")
        function = self._function
        text = forward_text(function.parameters, function.arguments, function.results, body)
        return script_module(function.title, parts, text)

    def _expression(self, node: fx.Node) -> str:
        if node not in self._places:
            raise PartitionRefused(
                f"{self._function.title} returns a weight, which no program gives",
                fix="return a copy: weight.clone()",
                line=program_line(),
            )
        return self._places[node]

    def _level_outputs(self, level: _Level) -> list[fx.Node]:
        """The values of a level that others, or the caller, read."""
        level_nodes = set(level.nodes)
        outputs = set(_outputs(self._function.module))
        return [
            node
            for node in level.nodes
            if (node in outputs or any(user not in level_nodes for user in node.users))
            and isinstance(node.meta.get("val"), Tensor)
        ]

    def _program(
        self, level: _Level, name: str, flags: Flags, workdir: Path | None
    ) -> tuple[StoredProgram, list[fx.Node]]:
        """The program of a level, and the values that it reads of others."""
        function = self._function
        outer_nodes = dict.fromkeys(
            operand
            for node in level.nodes
            for operand in node.all_input_nodes
            if operand not in level.nodes
        )
        input_nodes = [node for node in outer_nodes if node not in self._weights]
        operands = [*(node for node in outer_nodes if node in self._weights), *input_nodes]
        module, values = _subgraph(level.nodes, operands, self._level_outputs(level))
        names = {
            value.name: self._weights.get(node, node.name)
            for value, node in zip(values, operands, strict=True)
        }
        weight_names = [self._weights[node] for node in operands if node in self._weights]
        weights = {weight: function.weights[weight] for weight in weight_names}
        title = f"{function.title}.{name}"
        forms = {node.name: StoredTensor.of(node.meta["val"]) for node in input_nodes}
        if level.is_on_host:
            calls = Calls(module, values)
            return StoredProgram(
                title=title,
                traced_at=str(function.line or ""),
                target=HOST,
                cores=1,
                flags=[],
                weights={key: StoredTensor.of(value) for key, value in weights.items()},
                inputs=forms,
                calls=calls.calls,
                outputs=calls.outputs,
                places=calls.places,
            ), input_nodes
        program, report = compile_module(
            title, function.line, module, values, names, weights, forms, flags
        )
        if workdir is not None:
            write_workdir(workdir / name, report, program)
        return program, input_nodes


def _outputs(module: fx.GraphModule) -> list[fx.Node]:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    returned: Any = output.args[0]
    return list(returned)


def _subgraph(
    nodes: Sequence[fx.Node], outer_nodes: Sequence[fx.Node], outputs: Sequence[fx.Node]
) -> tuple[fx.GraphModule, list[fx.Node]]:
    """A graph of copies of `nodes`, and its inputs, one for each node of `outer_nodes`."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in outer_nodes:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    values = list(copies.values())
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in outputs])
    return fx.GraphModule(nn.Module(), graph), values
