"""A small Llama trained by data-parallel ranks, as a job of Slurm starts it.

The sizes stand in config.json beside it, steps and tokens in the options that `trnsim job price`
reads too.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

SIZES = json.loads(Path("config.json").read_text(encoding="utf-8"))
WIDTH, HEADS, WORDS = (SIZES[f"{n}"] for n in ("hidden_size", "num_attention_heads", "vocab_size"))


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        inner = SIZES["intermediate_size"]
        self.norm, self.inner_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.inputs, self.outputs = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)
        self.gate, self.up, self.down = (
            linear(*sizes) for sizes in ((WIDTH, inner), (WIDTH, inner), (inner, WIDTH))
        )

    def forward(self, values):
        batch, length, _ = values.shape
        parts = self.inputs(self.norm(values)).chunk(3, -1)
        heads = [part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        values = values + self.outputs(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        inner = self.inner_norm(values)
        return values + self.down(functional.silu(self.gate(inner)) * self.up(inner))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(SIZES["num_hidden_layers"])))
        self.head = linear(WIDTH, WORDS)

    def forward(self, numbers):
        return self.head(self.norm(self.layers(self.words(numbers))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seq-length", type=int)
    parser.add_argument("--max-steps", type=int)
    options, _ = parser.parse_known_args()
    dist.init_process_group("neuron")
    model = DistributedDataParallel(Model().bfloat16().to("neuron"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(options.max_steps):
        numbers = torch.randint(WORDS, (1, options.seq_length)).to("neuron")
        scores = model(numbers).float().view(-1, WORDS)
        functional.cross_entropy(scores, numbers.view(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)


main()
