"""Training on dialogues."""

import torch
from transformers import AutoModelForCausalLM


def train(batches):
    torch.cuda.set_device(0)
    model = AutoModelForCausalLM.from_pretrained("dialogues").cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
