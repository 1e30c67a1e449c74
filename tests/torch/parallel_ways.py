"""Ways to train one model over several processes; each gives its losses."""

import torch
import torch.distributed as dist
from torch import nn

EXPERTS = 8


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
    return whole.chunk(dist.get_world_size())[rank].to("neuron")


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
        fully_shard(layer, mesh=dist.init_device_mesh("neuron", (dist.get_world_size(),)))
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
    mesh = dist.init_device_mesh("neuron", (dist.get_world_size(),))
    model = parallelize_module(model.to("neuron"), mesh, plan)
    return losses_of(model, inputs.to("neuron"), targets.to("neuron"))


class Experts(nn.Module):
    """Each row goes through the one expert that the router likes best, weighted by how much."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(8, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(8, 4) for _ in range(EXPERTS))

    def forward(self, rows):
        weights, chosen = self.router(rows).softmax(-1).max(-1)
        return self.computed(rows, chosen) * weights[:, None]

    def computed(self, rows, chosen):
        """Every row by its expert, all of which are here."""
        parts = [self.experts[n](row[None]) for row, n in zip(rows, chosen, strict=True)]
        # A process to which no row came exchanges gradients all the same.
        return torch.cat([*parts, self.experts[0](rows[:0])])


class SpreadExperts(Experts):
    """The same with the experts spread over processes, to which rows travel and return."""

    def computed(self, rows, chosen):
        order = chosen.argsort(stable=True)
        world = dist.get_world_size()
        leaving = torch.bincount(chosen, minlength=EXPERTS).view(world, -1).sum(1)
        coming = torch.empty_like(leaving)
        dist.all_to_all_single(coming, leaving)
        splits = coming.tolist(), leaving.tolist()
        there = self.exchanged(rows[order], *splits)
        whose = self.exchanged(chosen[order].float()[:, None], *splits)[:, 0].long()
        back = self.exchanged(super().computed(there, whose), *reversed(splits))
        return back[order.argsort()]

    @staticmethod
    def exchanged(rows, coming, leaving):
        from torch.distributed import (  # noqa: PLC0415  imports much
            _functional_collectives as collectives,
        )

        return collectives.all_to_all_single_autograd(rows, coming, leaving, dist.group.WORLD)


def experts_data():
    torch.manual_seed(1)
    return torch.randn(8, 8), torch.randn(8, 4)


def expert_parallel(rank):
    model = SpreadExperts().to("neuron")
    world = dist.get_world_size()

    def summed(gradient):
        dist.all_reduce(gradient)
        return gradient / world

    for parameter in model.router.parameters():
        parameter.register_hook(lambda gradient: summed(gradient.clone()))
    for parameter in model.experts.parameters():
        parameter.register_hook(lambda gradient: gradient / world)
    return losses_of(model, *(shard(rank, whole) for whole in experts_data()))
