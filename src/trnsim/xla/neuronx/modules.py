"""Uses of a traced module: its weights, its cores, when it is loaded, its batch.

Sources: aws-neuron-sdk frameworks/torch/torch-neuronx: PyTorch NeuronX Tracing API for Inference,
Weight Replacement API, Lazy and Asynchronous Loading API, NeuronCore Placement APIs.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from torch import Tensor, nn

from trnsim.device.device_core import no_such_core, visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.aten.spec import tensor_text
from trnsim.torch.traces.instances import LoadedProgram, instance_of, loading, with_strides
from trnsim.torch.traces.placement import DEFAULT, placement_of, placing, require_numbers
from trnsim.torch.traces.script_module import programs_in

_WEIGHTS: Final = "aws-neuron-sdk, PyTorch Neuron Weight Replacement API for Inference"
_TRACING: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API for Inference"


class LoadedPart(NamedTuple):
    """A program of a traced module, and its instance in this process."""

    part: Any
    instance: LoadedProgram


def loaded_parts(traced_module: Any, caller: str) -> list[LoadedPart]:
    """The programs of a module that `torch_neuronx.trace` made, each with its loaded instance.

    Raises:
        BadInput: for a module that `torch_neuronx.trace` did not make.
    """
    parts = programs_in(traced_module) if isinstance(traced_module, nn.Module) else []
    if not parts:
        raise BadInput(
            f"torch_neuronx.{caller} of a {type(traced_module).__name__}; legal: what "
            "torch_neuronx.trace returns, saved and loaded or not",
            fix="traced = torch_neuronx.trace(model, example_inputs)",
            source=_TRACING,
            line=program_line(),
        )
    return [LoadedPart(part, instance_of(part.instance, part.program)) for part in parts]


def replace_weights(neuron_model: Any, weights: nn.Module | Mapping[str, Tensor]) -> None:
    """Give a traced module other weights: the weights of a module, or of a state_dict.

    A weight without a new tensor stays.

    Raises:
        BadInput: for weights of other shapes or dtypes, or names that no weight has.
    """
    tensors = _tensors(weights)
    replaceable_parts = [
        loaded_part
        for loaded_part in loaded_parts(neuron_model, "replace_weights")
        if loaded_part.instance.program.are_weights_apart
    ]
    if not replaceable_parts:
        warnings.warn(
            "torch_neuronx.replace_weights: the weights are part of the program, and stay\n  fix: "
            f"trace with inline_weights_to_neff=False\n  source: {_WEIGHTS}",
            stacklevel=2,
        )
        return
    for part, instance in replaceable_parts:
        forms = instance.program.weights
        new_weights: list[Tensor] = []
        for (name, form), old_weight in zip(forms.items(), part.weights, strict=True):
            tensor = tensors.get(name)
            if tensor is not None and not form.matches(tensor):
                raise BadInput(
                    f"the weight {name} is {tensor_text(tensor)}; legal: {form}, as traced",
                    fix="take the weights of a model of the same configuration",
                    source=_WEIGHTS,
                    line=program_line(),
                )
            new_weights.append(old_weight if tensor is None else with_strides(tensor, form))
        if tensors and not set(tensors) & set(forms):
            raise BadInput(
                f"no weight of {instance.program.origin} is among {', '.join(list(tensors)[:5])}; "
                f"its names are {', '.join(list(forms)[:5])}",
                fix="pass the state_dict of the model that was traced, without a prefix",
                source=_WEIGHTS,
                line=program_line(),
            )
        _refuse_misspelled(instance.program.origin, tensors, forms)
        part.weights = new_weights
        instance.forget_weights()


def _tensors(weights: Any) -> dict[str, Tensor]:
    """New weights by their names.

    Raises:
        BadInput: for a value that is neither a module nor a mapping of names to tensors.
    """
    if isinstance(weights, nn.Module):
        return dict(weights.state_dict())
    kind = type(weights).__name__
    if isinstance(weights, Mapping):
        entries: Mapping[Any, Any] = weights
        illegal_names = [
            name
            for name, tensor in entries.items()
            if not (isinstance(name, str) and isinstance(tensor, Tensor))
        ]
        if not illegal_names:
            return dict(entries)
        name = illegal_names[0]
        kind = f"mapping with a {type(entries[name]).__name__} of the name {name!r}"
    raise BadInput(
        f"torch_neuronx.replace_weights with a {kind}; legal: a torch.nn.Module, or tensors by "
        "their names",
        fix="torch_neuronx.replace_weights(traced, model.state_dict())",
        source=_WEIGHTS,
        line=program_line(),
    )


def _refuse_misspelled(title: str, tensors: Collection[str], forms: Collection[str]) -> None:
    """Refuse a name that no weight has, if a weight with a similar name would stay as it is.

    Other names may be there: a state_dict has each name of a shared weight, and unused buffers.
    """
    unchanged_names = [name for name in forms if name not in tensors]
    for name in tensors:
        similar = get_close_matches(name, unchanged_names, 1) if name not in forms else []
        if similar:
            raise BadInput(
                f"{title} has no weight {name}, and the weights have none for {similar[0]}, which "
                "would stay as it is",
                fix=f"is it {similar[0]}?",
                source=_WEIGHTS,
                line=program_line(),
            )


def move_trace_to_device(trace: Any, device_id: int) -> None:
    """Move a traced module, and its weights, to a NeuronCore.

    Raises:
        NoSuchCore: for a core that the process does not have.
    """
    require_numbers(device_id=device_id)
    if device_id == DEFAULT:
        raise no_such_core(device_id)
    for _, instance in loaded_parts(trace, "move_trace_to_device"):
        instance.place(placement_of(device_id))


def set_neuron_cores(trace: Any, start_nc: int = DEFAULT, nc_count: int = DEFAULT) -> None:
    """Move a traced module to `nc_count` cores from `start_nc` on, which it uses in turn.

    Raises:
        NoSuchCore: for a first core that the process does not have.
        CoresRefused: for a number of cores that it does not have.
    """
    for _, instance in loaded_parts(trace, "set_neuron_cores"):
        instance.place(placement_of(start_nc, nc_count))


def set_multicore(trace: Any) -> None:
    """Move a traced module to all cores of the process, which it uses in turn."""
    set_neuron_cores(trace, 0, len(visible_cores()))


@contextmanager
def neuron_cores_context(start_nc: int = DEFAULT, nc_count: int = DEFAULT) -> Generator[None]:
    """Context in which `torch.jit.load` loads to `nc_count` cores from `start_nc` on."""
    with placing(start_nc, nc_count):
        yield


@contextmanager
def multicore_context() -> Generator[None]:
    """Context in which `torch.jit.load` loads to all cores of the process."""
    with placing(0, len(visible_cores())):
        yield


@contextmanager
def disable_nrt_load() -> Generator[None]:
    """Context in which modules are loaded to no core; their first run loads them."""
    with loading.off():
        yield


def lazy_load(trace: Any, enable_lazy_load: bool = True) -> None:
    """Set whether `torch.jit.load` leaves the module on the host until it first runs."""
    for part, _ in loaded_parts(trace, "lazy_load"):
        part.is_lazy = bool(enable_lazy_load)


def async_load(trace: Any, enable_async_load: bool = True) -> None:
    """Set whether a thread of its own loads the module to its core."""
    for part, _ in loaded_parts(trace, "async_load"):
        part.is_async = bool(enable_async_load)


def dynamic_batch(neuron_script: Any) -> Any:
    """The module itself, which takes batches of any size from now on.

    Raises:
        BadInput: for inputs that were traced with different batch sizes.
    """
    for part, instance in loaded_parts(neuron_script, "dynamic_batch"):
        instance.traced_batch()
        part.is_batched = True
    return neuron_script
