"""Registration of `torch.device("neuron")` with PyTorch, once, in the order that PyTorch needs."""

from __future__ import annotations

from typing import Final

import torch

from trnsim.device.program_line import exclude_frames
from trnsim.errors import BadInput
from trnsim.torch import call_recording, pytorch
from trnsim.torch.api import accelerator, autocast, device, rng, storage
from trnsim.torch.clients import registry
from trnsim.torch.compile import default_compiler
from trnsim.torch.dispatch import (
    attention,
    convolutions,
    encoder_layers,
    flash,
    host_kernels,
    kernel_launcher,
    recurrent,
    special_kernels,
)
from trnsim.torch.distributed import process_group, processes, sync_batch_norm
from trnsim.torch.profiler import profiling
from trnsim.torch.traces import operators as traced_operators

# A library removes its kernels when it is freed, so these live as long as the process.
_aten: Final = pytorch.new_library("aten")
_c10d: Final = pytorch.new_library("c10d")
_every_namespace: Final = pytorch.new_library("_")
_is_registered: list[bool] = []


def register() -> None:
    """Register the device; a second call does nothing.

    Raises:
        BadInput: if another backend has claimed PyTorch's single free device type.
    """
    if _is_registered:
        return
    claimant = pytorch.backend_name()
    if claimant is not None:
        raise BadInput(
            f"PyTorch has room for one device type beside its own, and {claimant!r} has taken it",
            fix=f"import torch_neuron in a process without {claimant!r}",
        )
    exclude_frames(torch)
    pytorch.claim(device)
    storage.register(_aten)
    special_kernels.register(_aten)
    recurrent.register(_aten)
    attention.register(_aten)
    flash.register(_aten)
    convolutions.register(_aten)
    encoder_layers.register(_aten)
    sync_batch_norm.register(_aten)
    host_kernels.register_when_used(_aten)
    _every_namespace.fallback(host_kernels.fallback, "PrivateUse1")
    for layout in ("Sparse", "SparseCsr"):
        _every_namespace.fallback(host_kernels.refuse_sparse, f"{layout}PrivateUse1")
    _every_namespace.fallback(host_kernels.refuse_nested, "NestedTensorPrivateUse1")
    autocast.register(_aten, _every_namespace)
    process_group.register(_c10d)
    pytorch.print_from_host()
    rng.register()
    accelerator.register()
    kernel_launcher.register()
    processes.register()
    default_compiler.register()
    registry.register()
    profiling.register()
    traced_operators.register()
    call_recording.record_whole_program()
    _is_registered.append(True)
