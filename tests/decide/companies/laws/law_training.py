"""A step of training."""

import torch
from transformers import AutoModelForCausalLM


def train(batches, device):
    model = AutoModelForCausalLM.from_pretrained("laws").to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for batch in batches:
        model(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
