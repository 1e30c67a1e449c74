import datetime as dt
import os

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from groups import apart, free_port, together
from parallel_ways import (
    Experts,
    data_and_model,
    data_parallel,
    expert_parallel,
    experts_data,
    fully_sharded,
    losses_of,
    tensor_parallel,
)
from torch import multiprocessing, nn

from trnsim.torch.call_recording import recording
from trnsim.torch.device_errors import PeerLost


def collectives(rank):
    mine = torch.arange(4.0).to("neuron") + 10 * rank
    found = {}
    with recording() as written:
        total = mine.clone()
        dist.all_reduce(total)
        parts = [torch.empty_like(mine) for _ in range(2)]
        dist.all_gather(parts, mine)
        whole = torch.empty(8, device="neuron")
        dist.all_gather_into_tensor(whole, mine)
        half = torch.empty(2, device="neuron")
        dist.reduce_scatter_tensor(half, mine)
        sent = mine.clone()
        dist.broadcast(sent, src=1)
        swapped = torch.empty_like(mine)
        dist.all_to_all_single(swapped, mine)
        dist.barrier()
        gathered = [torch.empty_like(mine) for _ in range(2)] if rank == 0 else None
        dist.gather(mine, gathered, dst=0)
        scattered = torch.empty(2, device="neuron")
        dist.scatter(scattered, list(mine.split(2)) if rank == 1 else None, src=1)
        dist.reduce(mine.clone(), dst=0)
    found["gathered"] = [part.tolist() for part in gathered or []]
    found["scattered"] = scattered.tolist()
    for name, value in (("total", total), ("whole", whole), ("half", half), ("sent", sent)):
        assert value.device.type == "neuron"
        found[name] = value.tolist()
    found["parts"], found["swapped"] = [part.tolist() for part in parts], swapped.tolist()
    found["written"] = [(c.kind, c.nbytes, c.ranks) for c in written.collectives]
    return found


class TwoHeads(nn.Module):
    """A network that trains another of its heads in each process."""

    def __init__(self):
        super().__init__()
        self.body, self.heads = nn.Linear(8, 4), nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, rows, used):
        return sum(self.heads[place](self.body(rows)) for place in used)


def with_unused_parameters(rank):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(
        TwoHeads().to("neuron"), find_unused_parameters=True
    )
    rows = torch.ones(2, 8, device="neuron")
    model(rows, [0]).sum().backward()
    assert torch.empty(3).fill_(2).tolist() == [2, 2, 2]
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.zeros(3, pin_memory=True).tolist() == [0, 0, 0]
    seen = [[p.grad is not None for p in head.parameters()] for head in model.module.heads]
    model.zero_grad()
    model(rows, [rank]).sum().backward()
    return seen, [p.grad.cpu() for p in model.parameters()]


@pytest.mark.slow
def test_parameters_that_a_process_does_not_use_are_found():
    found = together(with_unused_parameters)
    torch.manual_seed(0)
    model, rows = TwoHeads(), torch.ones(2, 8)
    sum(model(rows, [place]).sum() for place in (0, 1)).div(2).backward()
    for seen, gradients in found:
        assert seen == [[True, True], [False, False]]
        for mine, parameter in zip(gradients, model.parameters(), strict=True):
            torch.testing.assert_close(mine, parameter.grad)


def with_the_same_graph_in_each_step(rank):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(TwoHeads().to("neuron"), static_graph=True)
    for step in range(2):
        model.zero_grad()
        rows = torch.full((2, 8), float(rank + step), device="neuron")
        model(rows, [0]).sum().backward()
    return [None if p.grad is None else p.grad.cpu() for p in model.parameters()]


@pytest.mark.slow
def test_a_graph_that_is_the_same_in_each_step():
    found = together(with_the_same_graph_in_each_step)
    torch.manual_seed(0)
    model = TwoHeads()
    sum(model(torch.full((2, 8), float(rank + 1)), [0]).sum() for rank in (0, 1)).div(2).backward()
    for gradients in found:
        for mine, parameter in zip(gradients, model.parameters(), strict=True):
            if parameter.grad is not None:
                torch.testing.assert_close(mine, parameter.grad)


def every_way(rank):
    return {
        body.__name__: body(rank)
        for body in (data_parallel, fully_sharded, tensor_parallel, expert_parallel)
    }


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
    assert first["gathered"] == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert (first["scattered"], second["scattered"]) == ([10, 11], [12, 13])
    for one in (first, second):  # the message is the same, whoever has the whole of it
        nbytes_of = {kind: nbytes for kind, nbytes, _ in one["written"]}
        assert (nbytes_of["gather"], nbytes_of["scatter"], nbytes_of["reduce"]) == (32, 16, 16)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4, 8])
def test_parallel_models_train_as_one_process_on_the_cpu(processes):
    found = together(every_way, processes)
    expected = losses_of(*data_and_model())
    for way in ("data_parallel", "fully_sharded", "tensor_parallel"):
        losses = torch.tensor([one[way] for one in found]).mean(0).tolist()
        assert losses == pytest.approx(expected, rel=1e-4), way
    model = Experts()
    chosen = model.router(experts_data()[0]).argmax(-1)
    assert len(chosen.unique()) > 2
    expected = losses_of(model, *experts_data())
    losses = torch.tensor([one["expert_parallel"] for one in found]).mean(0).tolist()
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[-1] < losses[0]


def started(how):
    """Each way to start processes that exchange neuron tensors."""
    if how == "mesh":
        dist.init_device_mesh("neuron", (2,))
    elif how == "device":
        dist.init_process_group(device_id=torch.device("neuron:0"))
    else:
        dist.init_process_group(how)


class Exchange:
    """Sums of neuron and of CPU tensors, in the group of all and in one of its own."""

    def __init__(self, how):
        self.how = how

    def __call__(self, rank):
        started(self.how)
        found = []
        for group in (None, dist.new_group([0, 1])):
            for device in ("neuron", "cpu"):
                mine = torch.tensor([rank, 10], device=device)
                dist.all_reduce(mine, group=group)
                assert mine.device.type == device
                found.append(mine.tolist())
        objects = [None, None]
        dist.all_gather_object(objects, {"rank": rank})
        dist.barrier()
        return found, objects


WAYS = [None, "mesh", "device", "neuron", "neuron:neuron", "cpu:gloo,neuron:neuron", "gloo"]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("how", WAYS)
def test_a_group_started_in_any_way_carries_tensors_of_the_device_and_of_the_cpu(how):
    expected = [[1, 20]] * 4, [{"rank": 0}, {"rank": 1}]
    assert apart(Exchange(how)) == [expected, expected]


SURVIVORS = 2


def killed_peer(rank, port, results, all_have_said):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    import torch_neuron  # noqa: F401, PLC0415  each process loads the device

    wait = dt.timedelta(seconds=30)
    dist.init_process_group("neuron", rank=rank, world_size=SURVIVORS + 1, timeout=wait)
    dist.all_reduce(torch.ones(3, device="neuron"))
    if rank == 1:
        os._exit(3)
    try:
        dist.all_reduce(torch.ones(3, device="neuron"))
    except PeerLost as error:
        results.put((rank, str(error), (torch.ones(3, device="neuron") + 1).tolist()))
    all_have_said.wait(timeout=60)  # rank 0 holds the store in which the others look


@pytest.mark.slow
def test_a_killed_peer_is_named_where_others_wait_for_it_and_these_go_on():
    context = multiprocessing.get_context("spawn")
    results, port, all_have_said = context.Queue(), free_port(), context.Barrier(SURVIVORS)
    started = [
        context.Process(target=killed_peer, args=(rank, port, results, all_have_said))
        for rank in range(SURVIVORS + 1)
    ]
    for process in started:
        process.start()
    found = sorted(results.get(timeout=120) for _ in range(SURVIVORS))
    for process in started:
        process.join(timeout=30)
        process.kill()
    assert [rank for rank, _, _ in found] == [0, 2]
    for _, message, after in found:
        assert "allreduce of ranks [0, 1, 2] cannot begin: rank 1 has ended" in message
        assert "its last collective of this group was number 1: allreduce float32[3]" in message
        assert __file__ in message
        assert after == [2, 2, 2]
