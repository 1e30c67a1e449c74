import os
import socket

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from torch import multiprocessing, nn

from trnsim.torch.recording import recording

PROCESSES = 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_a_group(rank, port, body, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    import torch_neuron  # noqa: F401, PLC0415  each process loads the device

    dist.init_process_group("neuron", rank=rank, world_size=PROCESSES)
    results[rank] = body(rank)
    dist.destroy_process_group()


def together(body):
    """What `body(rank)` gives in each of the processes."""
    with multiprocessing.Manager() as manager:
        results = manager.dict()
        multiprocessing.spawn(in_a_group, args=(free_port(), body, results), nprocs=PROCESSES)
        return [results[rank] for rank in range(PROCESSES)]


def collectives(rank):
    mine = torch.arange(4.0).to("neuron") + 10 * rank
    found = {}
    with recording() as written:
        total = mine.clone()
        dist.all_reduce(total)
        parts = [torch.empty_like(mine) for _ in range(PROCESSES)]
        dist.all_gather(parts, mine)
        whole = torch.empty(4 * PROCESSES, device="neuron")
        dist.all_gather_into_tensor(whole, mine)
        half = torch.empty(2, device="neuron")
        dist.reduce_scatter_tensor(half, mine)
        sent = mine.clone()
        dist.broadcast(sent, src=1)
        swapped = torch.empty_like(mine)
        dist.all_to_all_single(swapped, mine)
        dist.barrier()
    for name, value in (("total", total), ("whole", whole), ("half", half), ("sent", sent)):
        assert value.device.type == "neuron"
        found[name] = value.tolist()
    found["parts"], found["swapped"] = [part.tolist() for part in parts], swapped.tolist()
    found["written"] = [(c.kind, c.nbytes, c.ranks) for c in written.collectives]
    return found


def losses_of(model, inputs, targets):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def data_and_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    return model, torch.randn(8, 8), torch.randn(8, 4)


def shard(rank, whole):
    return whole.chunk(PROCESSES)[rank].to("neuron")


def data_parallel(rank):
    model, inputs, targets = data_and_model()
    # accelerate counts the devices of the machine; each process has its own neuron:0 all the same.
    parallel = nn.parallel.DistributedDataParallel(model.to("neuron"), [rank], rank)
    return losses_of(parallel, shard(rank, inputs), shard(rank, targets))


def fully_sharded(rank):
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  imports much

    model, inputs, targets = data_and_model()
    model = model.to("neuron")
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=dist.init_device_mesh("neuron", (PROCESSES,)))
    return losses_of(model, shard(rank, inputs), shard(rank, targets))


def tensor_parallel(rank):
    del rank
    from torch.distributed.tensor.parallel import (  # noqa: PLC0415  imports much
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model, inputs, targets = data_and_model()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    mesh = dist.init_device_mesh("neuron", (PROCESSES,))
    model = parallelize_module(model.to("neuron"), mesh, plan)
    return losses_of(model, inputs.to("neuron"), targets.to("neuron"))


def test_collectives_exchange_values_and_are_written_down():
    first, second = together(collectives)
    assert first["total"] == second["total"] == [10, 12, 14, 16]
    assert first["whole"] == [0, 1, 2, 3, 10, 11, 12, 13]
    assert first["parts"] == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert (first["half"], second["half"]) == ([10, 12], [14, 16])
    assert first["sent"] == [10, 11, 12, 13]
    assert second["swapped"] == [2, 3, 12, 13]
    kinds = [kind for kind, _, _ in first["written"]]
    assert kinds[:3] == ["allreduce", "allgather", "allgather_base"]
    assert {ranks for _, _, ranks in first["written"]} == {(0, 1)}
    assert [nbytes for _, nbytes, _ in first["written"]][:3] == [16, 32, 32]


@pytest.mark.parametrize("body", [data_parallel, fully_sharded, tensor_parallel])
def test_a_parallel_model_trains_as_one_process_on_the_cpu(body):
    expected = losses_of(*data_and_model())
    found = torch.tensor(together(body)).mean(0)
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def killed_peer(rank):
    if rank:
        os._exit(3)
    dist.all_reduce(torch.ones(3, device="neuron"))


def test_a_killed_peer_is_an_error_and_no_hang():
    with pytest.raises(
        (multiprocessing.ProcessExitedException, multiprocessing.ProcessRaisedException)
    ):
        together(killed_peer)
