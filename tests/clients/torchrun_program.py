"""A training script for torchrun, for whatever accelerator there is: DDP, then FSDP2, with DCP.

The first process prints the losses of each, and those of a model that goes on from a checkpoint.
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


def trained(way, batches, folder):
    """Six losses, and the last three again from what was saved after the third."""
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
    return {"losses": losses + after, "resumed": losses_of(other, its_optimizer, batches[3:])}


def main(folder):
    dist.init_process_group()
    own = torch.Generator().manual_seed(dist.get_rank())
    batches = torch.randn(6, 4, 8, generator=own)
    answer = {way: trained(way, batches, f"{folder}/{way}") for way in ("ddp", "fsdp")}
    if dist.get_rank() == 0:
        print("ANSWER", json.dumps({"device": device().type, **answer}), flush=True)
    dist.barrier()  # gloo ends a process whose peer has gone while its threads still run
    dist.destroy_process_group()


main(*sys.argv[1:])
