"""StableHLO as graphs: `graph_of` imports a module, a file of rules for each family.

Imported with jaxlib alone; JAX itself is not needed.
"""

from trnsim.jax.stablehlo.importing import ImportedModule, graph_of, is_device_program
from trnsim.jax.stablehlo.scope import Device

__all__ = ["Device", "ImportedModule", "graph_of", "is_device_program"]
