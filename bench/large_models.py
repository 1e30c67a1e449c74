"""Training steps of two models at their real sizes, for timing without values."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

TOKENS = 2048


class GptBlock(nn.Module):
    """GPT-2's: layer norms first, one projection for queries, keys and values, GELU."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """Attention, then the feed-forward part."""
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    """Llama's: RMS norms, rotary positions, grouped queries, SwiGLU."""

    def __init__(self, width, heads, shared, inner):
        super().__init__()
        self.size, self.groups = width // heads, heads // shared
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, shared * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cosines, sines):
        """Attention, then the feed-forward part."""
        y = self.before(x)
        q, k, v = (
            projection(y).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for projection in (self.q, self.k, self.v)
        )
        q, k = (turned(part, cosines, sines) for part in (q, k))
        k, v = (part.repeat_interleave(self.groups, 1) for part in (k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def turned(x, cosines, sines):
    """Rotary positions: halves of each head turned by the angle of their place."""
    low, high = x.chunk(2, -1)
    return x * cosines + torch.cat((-high, low), -1) * sines


class Model(nn.Module):
    """Tokens to scores through blocks; the output projection shares the embedding's weights."""

    def __init__(self, words, width, blocks, norm):
        super().__init__()
        self.words, self.blocks, self.norm = nn.Embedding(words, width), blocks, norm

    def forward(self, tokens, start=None, *tables):
        """Scores of the next token."""
        x = self.words(tokens)
        if start is not None:
            x = x + start
        for block in self.blocks:
            x = block(x, *tables)
        return functional.linear(self.norm(x), self.words.weight)


def train(model, tokens, *inputs):
    """One step of AdamW."""
    optimizer = torch.optim.AdamW(model.parameters())
    scores = model(tokens, *inputs)
    functional.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()


def gpt2_small():
    """124 million parameters, float32 under bfloat16 autocast."""
    with torch.device("neuron"):
        blocks = nn.ModuleList(GptBlock(768, 12) for _ in range(12))
        model = Model(50257, 768, blocks, nn.LayerNorm(768))
        tokens = torch.zeros(1, TOKENS, dtype=torch.long)
        places = torch.zeros(1, TOKENS, 768)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        train(model, tokens, places)


def llama_1b():
    """1.2 billion parameters in bfloat16."""
    with torch.device("neuron"):
        blocks = nn.ModuleList(LlamaBlock(2048, 32, 8, 8192) for _ in range(16))
        model = Model(128256, 2048, blocks, nn.RMSNorm(2048)).bfloat16()
        tokens = torch.zeros(1, TOKENS, dtype=torch.long)
        tables = [torch.zeros(TOKENS, 64, dtype=torch.bfloat16) for _ in range(2)]
    train(model, tokens, None, *tables)


MODELS = {"GPT-2 small": gpt2_small, "Llama 1B": llama_1b}
