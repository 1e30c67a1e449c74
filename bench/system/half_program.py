"""A published half of a layer as a module of PyTorch, and the time of its compiled program."""

from __future__ import annotations

import torch
from half import ATTENTION, BITS
from torch import nn
from torch.nn import functional

from trnsim import compiler
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered
from trnsim.torch.models.exported import weight_names
from trnsim.torch.models.model_graph import ModelGraph

WIDE = torch.bfloat16
NARROW = torch.float8_e5m2
"""Of 8-bit weights: PyTorch has no float8 of four exponent bits that Trainium2 has."""
ACTIVATIONS = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "tanh": lambda given: functional.gelu(given, approximate="tanh"),
}


class Linear(nn.Module):
    """``x @ W.T * scale + b`` of weights W [N, K], whose scale there is where they have 8 bits."""

    def __init__(self, inputs, outputs, half):
        super().__init__()
        is_wide = half.weight_bits == BITS
        made = torch.empty(outputs, inputs, dtype=WIDE if is_wide else NARROW)
        self.weight = nn.Parameter(made, requires_grad=False)
        self.scale = None if is_wide else nn.Parameter(torch.empty(outputs, dtype=WIDE))
        self.bias = nn.Parameter(torch.empty(outputs, dtype=WIDE)) if half.is_biased else None

    def forward(self, given):
        """[*, K] to [*, N]."""
        if self.scale is None:
            return functional.linear(given, self.weight, self.bias)
        found = functional.linear(given, self.weight.to(given.dtype)) * self.scale
        return found if self.bias is None else found + self.bias


class Products(nn.Module):
    """A residual, a norm, and an MLP or one product."""

    def __init__(self, half):
        super().__init__()
        norms = {"rms": nn.RMSNorm, "layer": nn.LayerNorm}
        self.norm = norms[half.norm](half.hidden, dtype=WIDE) if half.norm else nn.Identity()
        self.up = Linear(half.hidden, half.inner, half)
        self.gate = Linear(half.hidden, half.inner, half) if half.is_gated else None
        self.down = Linear(half.inner, half.hidden, half) if half.act else None
        self.act = ACTIVATIONS.get(half.act)

    def forward(self, given, residual=None):
        """[B, S, H] to [B, S, H] or [B, S, N], and the sum with the residual."""
        whole = given if residual is None else given + residual
        met = self.norm(whole)
        found = self.up(met)
        if self.act is not None:
            found = self.act(found) if self.gate is None else self.act(self.gate(met)) * found
            found = self.down(found)
        return found if residual is None else (found, whole)


class Attention(nn.Module):
    """Scores, softmax and values of heads [1, heads, S, D]."""

    def __init__(self, half):
        super().__init__()
        self.is_causal, self.is_shared = half.is_causal, half.heads != half.shared

    def forward(self, queries, keys, values):
        """[1, heads, S, D]."""
        return functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=self.is_causal, enable_gqa=self.is_shared
        )


def module_of(half):
    """(its module, its arguments), without values."""
    with torch.device("meta"):
        if half.kind == ATTENTION:
            queries = torch.empty(1, half.heads, half.tokens, half.hidden, dtype=WIDE)
            keys = torch.empty(1, half.shared, half.inner, half.hidden, dtype=WIDE)
            return Attention(half), (queries, keys, keys.clone())
        given = torch.empty(half.batch, half.tokens, half.hidden, dtype=WIDE)
        return Products(half).eval(), (given, given.clone()) if half.is_added else (given,)


def compiled(half):
    """(seconds of its program without the launch, seconds of the launch)."""
    module, arguments = module_of(half)
    exported = torch.export.export(module, arguments)
    program = exported.run_decompositions(pytorch.decompositions(is_lowered))
    made = ModelGraph.of(import_graph(program.graph_module), weight_names(program))
    found = compiler.compile(made.graph, "trn2", lnc=half.lnc, weights=made.weights)
    return found.device_time_s, found.launch_s
