"""A training script for `accelerate launch`: it prints what each process saw, as one JSON line."""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed


def main(folder, batch_size):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    set_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=int(batch_size))
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(batch).pow(2).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()[None]).mean().item())
    accelerator.save_state(folder)
    accelerator.wait_for_everyone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state(folder)
    weights = [p.detach() for p in accelerator.unwrap_model(model).parameters()]
    total = sum(getattr(w, "full_tensor", lambda w=w: w)().sum().item() for w in weights)
    ranks = gather_object([accelerator.process_index])
    if accelerator.is_main_process:
        answer = {
            "device": accelerator.device.type,
            "kind": accelerator.distributed_type.value,
            "ranks": ranks,
            "losses": losses,
            "total": total,
        }
        (Path(folder) / "answer.json").write_text(json.dumps(answer))
    accelerator.end_training()


main(*sys.argv[1:])
