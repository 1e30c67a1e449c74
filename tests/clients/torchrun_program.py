"""A training script for torchrun, for whatever accelerator there is: DDP, or FSDP2 with DCP.

Each process prints its losses; a model that goes on from a checkpoint prints them too.
"""

import json
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard


def device():
    found = torch.accelerator.current_accelerator()
    return torch.device("cpu") if found is None else found


def made(way, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(device())
    if way == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        mesh = dist.init_device_mesh(device().type, (dist.get_world_size(),))
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def losses_of(model, optimizer, batches):
    found = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch.to(device())).pow(2).mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        found.append(mean.item())
    return found


def main(way, folder):
    dist.init_process_group()
    own = torch.Generator().manual_seed(dist.get_rank())
    batches = torch.randn(6, 4, 8, generator=own)
    model, optimizer = made(way, 0)
    losses = losses_of(model, optimizer, batches[:3])
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    after = losses_of(model, optimizer, batches[3:])
    other, its_optimizer = made(way, 1)
    weights, moments = get_state_dict(other, its_optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        other, its_optimizer, model_state_dict=weights, optim_state_dict=state["optimizer"]
    )
    resumed = losses_of(other, its_optimizer, batches[3:])
    if dist.get_rank() == 0:
        answer = {"device": device().type, "losses": losses + after, "resumed": resumed}
        print("ANSWER", json.dumps(answer), flush=True)
    dist.barrier()  # gloo ends a process whose peer has gone while its threads still run
    dist.destroy_process_group()


main(*sys.argv[1:])
