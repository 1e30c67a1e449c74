"""`torch_neuronx.bucket_model_trace`: a module of several shapes; a user's kernel selects a shape.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Tracing API, Autobucketing,
and Autobucketing for Inference.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.traces.script_module import BUCKETS, script_module
from trnsim.torch.traces.stored import StoredProgram, StoredTensor
from trnsim.torch.traces.structure import forward_text
from trnsim.xla.neuronx.trace import CompiledTrace, compile_function
from trnsim.xla.neuronx.workdir import check_workdir, write_workdir

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API, Autobucketing"
_STATES: Final = "aws-neuron-sdk, Autobucketing for Inference, Shared State Buffers"


class BucketModelConfig:
    """The choice of a bucket by inputs.

    Attributes:
        bucket_kernel: makes the TorchScript function from a list of tensors to the bucket's inputs
            and its index.
        shared_state_buffer: first values of the states that all buckets share, or None.
        shared_state_buffer_preprocessor: makes the TorchScript function from the shapes of all
            buckets' states, the states and the bucket's index to the states of the bucket.
        func_kwargs: arguments of the function that makes the model, for all buckets or each.
        bucket_degree: the number of buckets, once they are traced.
    """

    def __init__(
        self,
        bucket_kernel: Callable[..., Any],
        *_: Any,
        shared_state_buffer: Sequence[Tensor] | None = None,
        shared_state_buffer_preprocessor: Callable[..., Any] | None = None,
        func_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        if not callable(bucket_kernel):
            raise BadInput(
                f"BucketModelConfig of {bucket_kernel!r}; legal: a function that returns one of "
                "TorchScript",
                fix="def get_bucket_kernel(): return bucket_kernel, which torch.jit.script made",
                source=_SOURCE,
                line=program_line(),
            )
        self.bucket_kernel = bucket_kernel
        self.shared_state_buffer = shared_state_buffer
        self.shared_state_buffer_preprocessor = shared_state_buffer_preprocessor
        self.func_kwargs = func_kwargs
        self.bucket_degree = len(func_kwargs) if isinstance(func_kwargs, list | tuple) else 1

    def store_example_inputs(self, example_inputs: Sequence[Any]) -> None:
        """Take the number of buckets from their example inputs.

        Source: neuronx-distributed trace/trace.py, parallel_model_trace.
        """
        self.bucket_degree = len(example_inputs)

    def get_func_kwargs_for_bucket_rank(self, bucket_rank: int) -> Mapping[str, Any]:
        """Arguments of the function that makes the model of a bucket."""
        if isinstance(self.func_kwargs, Mapping):
            return self.func_kwargs
        return self.func_kwargs[bucket_rank] if self.func_kwargs else {}


def bucket_model_trace(
    func: Callable[..., Any],
    example_inputs: Sequence[Any],
    bucket_config: BucketModelConfig,
    compiler_workdir: str | Path | None = None,
    compiler_args: str | Sequence[str] | None = None,
) -> Any:
    """A ScriptModule of one program for each of `example_inputs`.

    `func` returns a model and its states, as `input_output_aliases` of `torch_neuronx.trace`.

    Raises:
        BadInput: for inputs, states or a configuration that are not legal.
    """
    workdir = None if compiler_workdir is None else check_workdir(compiler_workdir)
    _check(example_inputs, bucket_config)
    bucket_config.store_example_inputs(example_inputs)
    traces: list[CompiledTrace] = []
    for rank, inputs in enumerate(example_inputs):
        model, aliases = _model_of(func, bucket_config.get_func_kwargs_for_bucket_rank(rank))
        bucket = compile_function(model, inputs, aliases, compiler_args or "")
        if workdir is not None:
            write_workdir(workdir / f"bucket_{rank}", bucket.report, bucket.program)
        traces.append(bucket)
    return _module(traces, bucket_config)


def _check(example_inputs: Any, config: Any) -> None:
    if not isinstance(example_inputs, list) or not example_inputs:
        raise BadInput(
            f"bucket_model_trace of example_inputs={example_inputs!r:.60}; legal: a list of the "
            "inputs of each bucket, at least one",
            fix="[inputs_of_128, inputs_of_512]",
            source=_SOURCE,
            line=program_line(),
        )
    if not isinstance(config, BucketModelConfig):
        raise BadInput(
            f"bucket_config is {type(config).__name__}; legal: a BucketModelConfig",
            fix="torch_neuronx.BucketModelConfig(get_bucket_kernel)",
            source=_SOURCE,
            line=program_line(),
        )
    if isinstance(config.func_kwargs, list | tuple) and len(config.func_kwargs) != len(
        example_inputs
    ):
        raise BadInput(
            f"func_kwargs for {len(config.func_kwargs)} buckets, example_inputs for "
            f"{len(example_inputs)}; legal: as many",
            fix="one dictionary for each bucket, or one for all",
            source=_SOURCE,
            line=program_line(),
        )
    shared_tensors: Any = config.shared_state_buffer
    if shared_tensors is not None and (
        not isinstance(shared_tensors, list | tuple)
        or not shared_tensors
        or not all(isinstance(tensor, Tensor) for tensor in shared_tensors)
    ):
        raise BadInput(
            f"shared_state_buffer is a {type(shared_tensors).__name__}; legal: a list of tensors",
            fix="the first values of the states, of their largest shapes: [torch.zeros(1, 512)]",
            source=_STATES,
            line=program_line(),
        )


def _model_of(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model that `func` makes, and its states."""
    name = getattr(func, "__name__", type(func).__name__)
    try:
        inspect.signature(func).bind(**kwargs)
    except TypeError as error:
        raise BadInput(
            f"bucket_model_trace: {name} cannot be called with the arguments "
            f"{', '.join(kwargs) or 'none'} of func_kwargs: {error}; legal: a function that "
            "returns a model and a dictionary of states",
            fix=f"def get_model(): return {name}, {{}}; bucket_model_trace(get_model, ...)",
            source=_SOURCE,
            line=program_line(),
        ) from error
    pair = func(**kwargs)
    if not isinstance(pair, tuple) or len(pair) != 2:  # noqa: PLR2004  a model, its states
        raise BadInput(
            f"bucket_model_trace: {name} returns a {type(pair).__name__}; legal: a model and a "
            "dictionary of states",
            fix="return model, {}",
            source=_SOURCE,
            line=program_line(),
        )
    return pair


def _module(traces: Sequence[CompiledTrace], config: BucketModelConfig) -> Any:
    """The module that chooses a program by the bucket's kernel."""
    function = traces[0].function
    texts = {bucket.result().expression() for bucket in traces}
    if len(texts) != 1:
        raise BadInput(
            f"buckets of {function.title} return {' and '.join(sorted(texts))}; legal: the same "
            "nesting of tensors",
            fix="return the same from the model of each bucket",
            source=_SOURCE,
            line=program_line(),
        )
    buckets = Buckets(
        function.title,
        [bucket.program for bucket in traces],
        [list(bucket.function.weights.values()) for bucket in traces],
    )
    result = traces[0].result()
    return bucket_module(
        buckets,
        lambda body: forward_text(function.parameters, function.arguments, result, body),
        config,
    )


class Buckets(NamedTuple):
    """The programs of a module of several shapes.

    Attributes:
        title: the name of the module's class.
        weights: the weights of each, in the order of the program.
    """

    title: str
    programs: list[StoredProgram]
    weights: list[list[Tensor]]


def bucket_module(
    buckets: Buckets, forward: Callable[[list[str]], str], config: BucketModelConfig
) -> Any:
    """The module of buckets whose method `forward` makes of the lines of its body.

    Raises:
        BadInput: for states of other shapes than the models keep.
    """
    attributes: dict[str, Any] = {"bucket_kernel": _make_script(config.bucket_kernel)}
    body = ["r, bucket = self.bucket_kernel(a)", "bucket_number = int(bucket)"]
    has_states = config.shared_state_buffer is not None
    if has_states:
        attributes |= _states(buckets, config)
        cut_call = "self.state_preprocessor(self.state_shapes, self.states, bucket)"
        body.append(f"states = {cut_call if 'state_preprocessor' in attributes else 'self.states'}")
    for rank in range(len(buckets.programs)):
        call = f"self.{BUCKETS}.models[{rank}]"
        body.append(f"{'if' if rank == 0 else 'elif'} bucket_number == {rank}:")
        body.append(f"    r = {call}.step(r, states)" if has_states else f"    r = {call}(r)")
    legal = f"that was not traced; legal: 0 to {len(buckets.programs) - 1}"
    text = f'"the bucket kernel chose bucket " + str(bucket_number) + ", {legal}"'
    body += ["else:", f"    raise RuntimeError({text})"]
    if has_states:
        body += ["for place in range(len(states)):"]
        body += ["    states[place].copy_(r[len(r) - len(states) + place])"]
    contents = [program.to_bytes() for program in buckets.programs]
    parts = list(zip(contents, buckets.weights, strict=True))
    return script_module(buckets.title, {}, forward(body), attributes, parts)


def _make_script(make: Callable[..., Any]) -> Any:
    """The TorchScript function that `make` returns.

    Raises:
        BadInput: it returns something else.
    """
    with warnings.catch_warnings():
        # PyTorch has deprecated TorchScript, in which functions of buckets are written.
        warnings.simplefilter("ignore", DeprecationWarning)
        script = make()
    if not isinstance(script, torch.jit.ScriptFunction | torch.jit.ScriptModule):
        raise BadInput(
            f"{getattr(make, '__name__', make)} of a BucketModelConfig returns a "
            f"{type(script).__name__}; legal: a function of TorchScript",
            fix="return torch.jit.script(function)",
            source=_SOURCE,
            line=program_line(),
        )
    return script


def _states(buckets: Buckets, config: BucketModelConfig) -> dict[str, Any]:
    """The states that all buckets share, their shapes in each, and the function that cuts them.

    Raises:
        BadInput: for another number of states than the models keep, or other dtypes; for other
            shapes, if nothing cuts them.
    """
    shared_tensors = [tensor.detach().clone() for tensor in config.shared_state_buffer or ()]
    make = config.shared_state_buffer_preprocessor
    shapes: list[list[list[int]]] = []
    for rank, program in enumerate(buckets.programs):
        forms = list(program.weights.values())
        states = [forms[weight] for weight, _ in program.aliases]
        is_matching = len(states) == len(shared_tensors) and all(
            StoredTensor.of(state).dtype == form.dtype
            and (make is not None or list(state.shape) == form.shape)
            for form, state in zip(states, shared_tensors, strict=True)
        )
        if not is_matching:
            buffer = ", ".join(str(StoredTensor.of(state)) for state in shared_tensors)
            raise BadInput(
                f"shared_state_buffer has {buffer}; the model of bucket {rank} keeps "
                f"{', '.join(map(str, states)) or 'no states'}",
                fix="name each state in the model's input_output_aliases, in the same order; a "
                "shared_state_buffer_preprocessor cuts them to the shapes of a bucket",
                source=_STATES,
                line=program_line(),
            )
        shapes.append([form.shape for form in states])
    attributes: dict[str, Any] = {"states": shared_tensors}
    if make is not None:
        attributes |= {"state_shapes": shapes, "state_preprocessor": _make_script(make)}
    return attributes
