"""StableHLO as graphs: `graph_of` imports a module, a file of rules for each family.

Imported with jaxlib alone; JAX itself is not needed.
"""

from trnsim.jax.stablehlo.importing import Imported, graph_of

__all__ = ["Imported", "graph_of"]
