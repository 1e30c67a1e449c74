"""Groups of processes for tests: a function in each of them, and what it gives."""

import os
import socket
import time

import torch.distributed as dist
from torch import multiprocessing

PRELOADED = [
    *("torch", "torch.distributed.fsdp", "torch.distributed.tensor.parallel"),
    *(
        "trnsim.compiler.operators",
        "trnsim.compiler.ncc",
        "trnsim.device.call_log",
        "trnsim.profile",
    ),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_a_process(rank, port, processes, body, results):
    import torch  # noqa: PLC0415  as in a program of its own
    import torch_neuron  # noqa: F401, PLC0415  each process loads the device

    torch.set_num_threads(1)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes),
    )  # fmt: skip
    results[rank] = body(rank)
    patience_s = time.monotonic() + 20
    while rank == 0 and len(results) < processes and time.monotonic() < patience_s:
        time.sleep(0.05)  # it holds the store in which the others look
    if dist.is_initialized():
        dist.destroy_process_group()


def apart(body, processes=2):
    """What `body(rank)` gives in each of the processes, which may start a group."""
    with multiprocessing.Manager() as manager:
        results = manager.dict()
        given = (free_port(), processes, body, results)
        # What takes seconds to import is imported once, by the server that the processes fork from.
        multiprocessing.set_forkserver_preload(PRELOADED)
        multiprocessing.start_processes(
            in_a_process, args=given, nprocs=processes, start_method="forkserver"
        )
        return [results[rank] for rank in range(processes)]


class InAGroup:
    """`body(rank)` in a group of the device."""

    def __init__(self, body):
        self.body = body

    def __call__(self, rank):
        dist.init_process_group("neuron")
        return self.body(rank)


def together(body, processes=2):
    """What `body(rank)` gives in each of the processes of a group of the device."""
    return apart(InAGroup(body), processes)
