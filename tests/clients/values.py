"""Tiny models of transformers beside the graphs that are built of their configurations.

Nothing of what builds a graph is used to say where a weight lies: a family's modules are named here
by hand, as transformers names them.
"""

import re

import numpy as np
import torch
import transformers

from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.whole_graph import whole_graph

BATCH, TOKENS, WORDS = 2, 9, 41


def config_of(values):
    """The configuration, as transformers reads it."""
    given = dict(values)
    return transformers.CONFIG_MAPPING[given.pop("model_type")].from_dict(given)


def built(values, kind=None):
    """The model on the CPU, with weights none of which is zero or one."""
    torch.manual_seed(0)
    config = config_of(values)
    if kind is None:
        kind = getattr(transformers, values["architectures"][0])
    config._attn_implementation = "eager"
    model = kind._from_config(config, dtype=torch.float32).eval()
    model.set_experts_implementation("eager") if hasattr(model, "set_experts_implementation") else 0
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.3 + 0.1)
        for name, buffer in model.named_buffers():
            if "correction" in name:
                buffer.copy_(torch.randn(buffer.shape) * 0.1)
    return model


def graph_of(values, phase, tokens, past=0):
    """The graph of a pass in float32."""
    model = from_config({**values, "torch_dtype": "float32"}, "tiny.json")
    return whole_graph(model, Pass(Phase(phase), BATCH, tokens, past)), model


class Weights:
    """A model's tensors by the names that graphs have for them."""

    def __init__(self, model, names):
        tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]
        self.known = {name: value.detach().numpy() for name, value in tensors}
        self.names = names

    def __call__(self, name, shape):
        """The tensor of an input of a graph."""
        found = re.match(r"(?:(\w+)\.)?layers\.(\d+)\.(.*)", name)
        side, number, role = found.groups() if found else (None, "", name)
        if not found and "." in name:
            side, _, role = name.partition(".")
        for candidate in self.names[role]:
            if isinstance(candidate, np.ndarray):
                return candidate
            parts, make = candidate if isinstance(candidate, tuple) else (candidate, None)
            paths = [one.format(n=number, side=side) for one in parts.split()]
            if all(path in self.known for path in paths):
                arrays = [self.known[path] for path in paths]
                array = make(*arrays) if make else default(role, arrays)
                assert array.size == np.prod(shape), (name, array.shape, shape)
                return array.reshape(shape)
        raise LookupError(name)


def default(role, arrays):
    """Matrices [N, K] side by side as [K, N]; vectors one after another."""
    is_table = role in ("table", "learned places", "scores of words", "kinds of tokens")
    if arrays[0].ndim == 2 and not is_table and not role.endswith("norm weight"):
        return np.concatenate(arrays).T
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]


def evaluated(made, weights, given, cache=()):
    """What a graph gives, by numpy alone; `cache` are keys and values in order."""
    earlier, arrays = iter(cache), []
    for value in made.graph.inputs:
        name = made.names[value.number]
        if name.endswith("cache"):
            array = next(earlier)[..., -value.shape[-2] :, :]
        elif name in given:
            array = given[name].numpy().reshape(value.shape)
        else:
            array = weights(name, value.shape)
        arrays.append(np.ascontiguousarray(array, dtype=value.type.numpy_dtype()))
    return made.graph.reference(arrays)
