"""The ranks of a program of `torch_xla`: their numbers, their cores, and their process group.

A rank is a process with one device. torchrun's variables are mapped to variables of AWS's runtime,
as PyTorch/XLA's plugin for Neuron does (torch_xla 2.9.0, _internal/neuron.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from functools import wraps
from typing import Any, Final

import torch.distributed as dist

from trnsim.device import device_core
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.formatting import counted
from trnsim.instance.cores import VISIBLE, environment_number, parse_cores
from trnsim.torch.device_name import DEVICE_TYPE
from trnsim.torch.distributed import process_group
from trnsim.xla import process_groups
from trnsim.xla.process_groups import BACKEND

_distributed: Any = dist  # the stub leaves some names out

PROCESSES: Final = "NEURONCORE_NUM_DEVICES"
"""The number of processes that `xmp.spawn` starts."""
_ROOT_PORT: Final = 62182
_ELASTIC: Final = "TORCHELASTIC_RUN_ID"
"""Set by torchrun: torch/distributed/elastic, `is_torchelastic_launched`."""
_SOURCE: Final = "torch_xla 2.9.0, _internal/neuron.py"


def map_launcher(environment: MutableMapping[str, str]) -> None:
    """Set AWS's variables in a process that torchrun started, and in no other process.

    Raises:
        BadInput: for another number of cores than of processes.
    """
    if _ELASTIC not in environment or environment.get("XLA_USE_SPMD") == "1":
        return
    address = environment.get("MASTER_ADDR", "localhost")
    environment.setdefault("NEURON_RT_ROOT_COMM_ID", f"{_with_brackets(address)}:{_ROOT_PORT}")
    if "NEURON_PJRT_PROCESSES_NUM_DEVICES" not in environment:
        environment.setdefault("NEURON_PJRT_WORLD_SIZE", environment.get("WORLD_SIZE", "1"))
        environment.setdefault("PJRT_LOCAL_PROCESS_COUNT", _local_world(environment))
    local_rank = environment.get("LOCAL_RANK", "0")
    environment[VISIBLE] = own_cores(environment, int(local_rank), int(_local_world(environment)))
    environment["NEURON_PJRT_PROCESS_INDEX"] = environment.get("RANK", "0")
    environment["PJRT_LOCAL_PROCESS_RANK"] = local_rank
    device_core.visible_cores.cache_clear()


def process_count(environment: Mapping[str, str]) -> int:
    """The number of processes that `xmp.spawn` starts: NEURONCORE_NUM_DEVICES, or 1.

    Raises:
        BadInput: for a value that is no number from 1 on.
    """
    value = environment.get(PROCESSES, "1")
    if not value.isdecimal() or int(value) == 0:
        raise BadInput(
            f"{PROCESSES}={value!r} is no number of processes; legal: 1, 2, ...",
            fix=f"give one for each core: {PROCESSES}=2",
            source=_SOURCE,
            line=program_line(),
        )
    return int(value)


def own_cores(environment: Mapping[str, str], local_rank: int, local_world: int) -> str:
    """NEURON_RT_VISIBLE_CORES of a rank: its core among the cores of the environment's variable.

    Without the variable it is the core with the rank's number. If the variable names one core, that
    is the rank's own already.

    Raises:
        BadInput: for several cores, but another number than there are ranks.
    """
    value = environment.get(VISIBLE)
    if not value:
        return str(local_rank)
    cores = parse_cores(value)
    if len(cores) == 1:
        return value
    if len(cores) != local_world:
        end_text = f"-{local_world - 1}" if local_world > 1 else ""
        raise BadInput(
            f"{VISIBLE}={value!r} has {counted(len(cores), 'core')} for "
            f"{counted(local_world, 'rank')} of this machine; "
            "legal: a core for each rank",
            fix=f"{VISIBLE}=0{end_text}, or start {len(cores)} ranks",
            source=f"{_SOURCE}, remap_visible_cores",
        )
    return str(cores[local_rank])


def _local_world(environment: Mapping[str, str]) -> str:
    return environment.get("LOCAL_WORLD_SIZE", "1")


def _with_brackets(address: str) -> str:
    """An address of IPv6 in brackets; any other unchanged."""
    return f"[{address}]" if address.count(":") > 1 and not address.startswith("[") else address


def world_size() -> int:
    """The number of ranks of the program."""
    return dist.get_world_size() if dist.is_initialized() else environment_number("WORLD_SIZE", 1)


def ordinal() -> int:
    """This process's rank in the program."""
    return dist.get_rank() if dist.is_initialized() else environment_number("RANK", 0)


def local_ordinal() -> int:
    """This process's rank on its machine."""
    return environment_number("LOCAL_RANK", 0)


def local_world_size() -> int:
    """The number of ranks on this machine."""
    return environment_number("LOCAL_WORLD_SIZE", world_size())


_is_own_group: Final[list[bool]] = []


def group() -> Any:
    """The default process group, created here if the program has not done so."""
    if not dist.is_initialized():
        dist.init_process_group(BACKEND)
        _is_own_group.append(True)
    return dist.group.WORLD


def register() -> None:
    """Register the backend "xla", and "xla://" and "pjrt://" as addresses to begin its group."""
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    backend: Any = dist.Backend
    make = process_group._process_group  # noqa: SLF001  pyright: ignore[reportPrivateUsage]
    backend.register_backend(BACKEND, make, devices=["cpu", DEVICE_TYPE])
    for scheme in ("xla", "pjrt"):
        _distributed.register_rendezvous_handler(scheme, _meet)
    module: Any = dist.distributed_c10d
    begin = module.init_process_group

    @wraps(begin)
    def init_process_group(*args: Any, **options: Any) -> None:
        backend = options.get("backend", args[0] if args else None)
        if backend == BACKEND and dist.is_initialized() and _is_own_group:
            _is_own_group.clear()  # the program begins the group that `group` has begun
            return
        if backend == BACKEND and "RANK" not in os.environ and _is_by_variables(args, options):
            options |= {"init_method": "xla://"}
        begin(*args, **options)

    module.init_process_group = init_process_group
    setattr(dist, "init_process_group", init_process_group)  # noqa: B010  a stub says Final
    process_groups.install()


def _is_by_variables(args: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    """True if a call names only a backend, and no address, store or ranks."""
    meeting_options = {"init_method", "store", "rank", "world_size"}.intersection(options)
    return not args[1:] and not meeting_options


def _meet(url: str, *args: Any, **options: Any) -> Iterator[tuple[Any, int, int]]:
    """The store, rank and size of the default group: by torchrun's variables, else of one rank.

    Raises:
        BadInput: where a rank has no address to meet the others.
    """
    del url, args, options
    if "RANK" not in os.environ:
        yield _distributed.HashStore(), 0, 1
        return
    if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
        raise BadInput(
            f"RANK={os.environ['RANK']}, but no MASTER_ADDR and MASTER_PORT for xla://",
            fix="start the program with torchrun, or torch_xla.launch(function)",
            line=program_line(),
        )
    yield from _distributed.rendezvous("env://")


def leave() -> None:
    """End the group that `group` began, once all ranks have come here: rank 0 has the store."""
    if dist.is_initialized() and _is_own_group:
        dist.barrier()
        _is_own_group.clear()
        dist.destroy_process_group()
