"""Models whose parameters are spread over processes: saved, resumed, and offloaded to the host."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from groups import apart
from torch import nn

STEPS = 3


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 5))


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def losses_of(model, optimizer, device="neuron"):
    """Losses of some steps on this process's rows."""
    inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(dist.get_rank()))
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(inputs.to(device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def data_parallel(rank):
    """What the CPU finds, with the whole model in each process."""
    del rank
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(network(0))
    return losses_of(model, optimizer_of(model), "cpu")


def sharded(seed, device="neuron", **options):
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  imports much

    model = network(seed).to(device)
    mesh = dist.init_device_mesh("neuron", (2,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, **options)
    return model, optimizer_of(model)


class Resume:
    """Losses after a checkpoint: of the model that was saved, and of another that loaded it."""

    def __init__(self, folder, way):
        self.folder = folder
        self.way = way

    def __call__(self, rank):
        del rank
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415  imports much
        from torch.distributed.checkpoint.state_dict import (  # noqa: PLC0415  likewise
            get_state_dict,
            set_state_dict,
        )

        model, optimizer = sharded(0)
        first = losses_of(model, optimizer)
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        if self.way == "async":
            dcp.async_save(state, checkpoint_id=self.folder).result()
        else:
            dcp.save(state, checkpoint_id=self.folder)
        other, its_optimizer = sharded(5)
        weights, moments = get_state_dict(other, its_optimizer)
        state = {"model": weights, "optimizer": moments}
        dcp.load(state, checkpoint_id=self.folder)
        set_state_dict(
            other, its_optimizer, model_state_dict=weights, optim_state_dict=state["optimizer"]
        )
        return first, losses_of(model, optimizer), losses_of(other, its_optimizer)


@pytest.mark.parametrize("way", ["save", "async"])
def test_a_sharded_model_goes_on_from_its_checkpoint(tmp_path, way):
    expected = apart(data_parallel)
    for rank, (first, after, resumed) in enumerate(apart(Resume(str(tmp_path), way))):
        assert first == pytest.approx(expected[rank], rel=1e-4)
        assert resumed == after
        assert after[0] < first[0]


class Offloaded:
    """Losses where the parameters live on the host, in pinned memory or not."""

    def __init__(self, is_pinned):
        self.is_pinned = is_pinned

    def __call__(self, rank):
        del rank
        from torch.distributed.fsdp import CPUOffloadPolicy  # noqa: PLC0415  imports much

        policy = CPUOffloadPolicy(pin_memory=self.is_pinned)
        model, optimizer = sharded(0, "cpu", offload_policy=policy)
        found = losses_of(model, optimizer)
        assert {p.device.type for p in model.parameters()} == {"cpu"}
        return found


@pytest.mark.parametrize("is_pinned", [True, False])
def test_parameters_on_the_host_train(is_pinned):
    for mine, expected in zip(apart(Offloaded(is_pinned)), apart(data_parallel), strict=True):
        assert mine == pytest.approx(expected, rel=1e-4)
