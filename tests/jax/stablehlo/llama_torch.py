"""The step of `llama` in PyTorch: the same shapes, the same products."""

import torch
from llama import BATCH, HEADS, LAYERS, SHAPES, TOKENS, VOCABULARY, WIDTH
from torch import nn
from torch.nn import functional as F  # noqa: N812  PyTorch's own way


class Layer(nn.Module):
    """`llama.layer`."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            setattr(self, name, nn.Parameter(torch.ones(shape)))

    def forward(self, x):
        """See `llama.layer`."""
        h = F.rms_norm(x, (WIDTH,), self.norm, 1e-5)
        q, k, v = (
            (h @ one).reshape(BATCH, TOKENS, HEADS, -1).transpose(1, 2)
            for one in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(-1, -2) * (WIDTH / HEADS) ** -0.5
        seen = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
        shares = torch.where(seen, scores, -1e9).softmax(-1)
        mixed = (shares @ v).transpose(1, 2).reshape(BATCH, TOKENS, WIDTH)
        x = x + mixed @ self.o
        h = F.rms_norm(x, (WIDTH,), self.last, 1e-5)
        return x + (F.silu(h @ self.gate) * (h @ self.up)) @ self.down


class Model(nn.Module):
    """`llama.loss`."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(VOCABULARY, WIDTH))
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])

    def forward(self, given):
        """See `llama.loss`."""
        x = self.table[given[:, :-1].long()]
        for one in self.layers:
            x = one(x)
        logits = x @ self.table.T
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), given[:, 1:].reshape(-1).long())
