"""Models of transformers as graphs: from a `config.json` and a shape to the graph of one rank.

A model is built on PyTorch's meta device by transformers' own class, so that neither weights nor
memory for them are needed, and its graph is imported as any other. An architecture whose graph
cannot be built is refused by name.
"""

from trnsim.torch.models.config import read_config
from trnsim.torch.models.model_graph import ModelGraph, model_graph, module_graph
from trnsim.workload.shape import PHASES, ModelShape

__all__ = ["PHASES", "ModelGraph", "ModelShape", "model_graph", "module_graph", "read_config"]
