"""`torch_neuronx.bucket_model_trace`: one module of several shapes; a user's kernel chooses one.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Tracing API, Autobucketing,
and Autobucketing for Inference.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.traces.script_module import script_module
from trnsim.torch.traces.structure import forward_text
from trnsim.xla.neuronx.trace import CompiledTrace, compile_function
from trnsim.xla.neuronx.workdir import check_workdir, write_workdir

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API, Autobucketing"


class BucketModelConfig:
    """How inputs choose a bucket.

    Attributes:
        bucket_kernel: makes the TorchScript function from a list of tensors to the bucket's inputs
            and its index.
        shared_state_buffer: values of the state that all buckets share, or None.
        shared_state_buffer_preprocessor: makes the function that cuts the state for a bucket.
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
        BadInput: for inputs or a configuration that are not legal, and for states that buckets
            share.
    """
    workdir = None if compiler_workdir is None else check_workdir(compiler_workdir)
    _check(example_inputs, bucket_config)
    bucket_config.bucket_degree = len(example_inputs)
    compiled: list[CompiledTrace] = []
    for rank, inputs in enumerate(example_inputs):
        model, aliases = _model_of(func, bucket_config.get_func_kwargs_for_bucket_rank(rank))
        bucket = compile_function(model, inputs, aliases, compiler_args or "")
        if workdir is not None:
            write_workdir(workdir / f"bucket_{rank}", bucket.report, bucket.program)
        compiled.append(bucket)
    return _module(compiled, bucket_config)


def _check(example_inputs: Any, config: Any) -> None:
    if not isinstance(example_inputs, list) or not example_inputs:
        raise BadInput(
            f"bucket_model_trace of example_inputs {type(example_inputs).__name__}; legal: a list "
            "of the inputs of each bucket",
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
    if config.shared_state_buffer is not None:
        raise BadInput(
            "shared_state_buffer: a state of several programs is not modelled",
            fix="trace one program of the longest shape, with input_output_aliases",
            source=_SOURCE,
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


def _module(compiled: Sequence[CompiledTrace], config: BucketModelConfig) -> Any:
    """The module that chooses a program by the bucket's kernel."""
    first = compiled[0].function
    texts = {bucket.returned().expression() for bucket in compiled}
    if len(texts) != 1:
        raise BadInput(
            f"buckets of {first.title} return {' and '.join(sorted(texts))}; legal: the same "
            "nesting of tensors",
            fix="return the same from the model of each bucket",
            source=_SOURCE,
            line=program_line(),
        )
    body = ["b, i = self.bucket_kernel(a)", "k = int(i)", "r = b"]
    parts = {}
    for rank, bucket in enumerate(compiled):
        parts[f"neuron_{rank}"] = (
            bucket.program.to_bytes(),
            list(bucket.function.weights.values()),
        )
        word = "if" if rank == 0 else "elif"
        body += [f"{word} k == {rank}:", f"    r = self.neuron_{rank}(b)"]
    text = f"that was not traced; legal: 0 to {len(compiled) - 1}"
    body += [
        "else:",
        f'    raise RuntimeError("the bucket kernel chose bucket " + str(k) + ", {text}")',
    ]
    forward = forward_text(first.parameters, first.arguments, compiled[0].returned(), body)
    with warnings.catch_warnings():
        # PyTorch has deprecated TorchScript, in which bucket kernels are written.
        warnings.simplefilter("ignore", DeprecationWarning)
        kernel = config.bucket_kernel()
    return script_module(first.title, parts, forward, functions={"bucket_kernel": kernel})


def create_bucket_model(*_: Any, **__: Any) -> Any:
    """Not here: a module of buckets of HLO.

    Raises:
        BadInput: always.
    """
    raise BadInput(
        "torch_neuronx.xla_impl.bucket_trace.create_bucket_model takes binaries of neuronx-cc, "
        "which are not made here",
        fix="torch_neuronx.bucket_model_trace",
        source=_SOURCE,
        line=program_line(),
    )
