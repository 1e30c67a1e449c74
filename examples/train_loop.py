"""The plain PyTorch training loop, on an emulated Trainium.

The loop below the line is the one that every PyTorch program has. Above it stands what it leaves
open: data, a model, a criterion. Each batch is the whole data set, so that the targets, which the
loop never moves, can lie on the device from the start.
"""
# ruff: noqa: E402, F401  the loop brings its own imports

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
features = torch.randn(128, 8)
targets = (features.sum(dim=1, keepdim=True).sin() + features[:, :1]).to("neuron")
dataloader = DataLoader([row for _ in range(30) for row in features], batch_size=len(features))
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []


def after_step(*_):
    """The loop asks for no gradients to be cleared and prints nothing; this does both."""
    optimizer.zero_grad()
    losses.append(loss.item())


optimizer.register_step_post_hook(after_step)

# --------------------------------------------------------------------------------------------------
import torch
import torch_neuron

device = torch.device("neuron")
model = model.to(device)
for batch in dataloader:
    inputs = batch.to(device)
    outputs = model(inputs)
    loss = criterion(outputs, targets)
    loss.backward()
    optimizer.step()
# --------------------------------------------------------------------------------------------------

print(f"{torch.neuron.get_device_name()}: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
print(torch.neuron.memory_summary(abbreviated=True))
assert losses[-1] < losses[0]
