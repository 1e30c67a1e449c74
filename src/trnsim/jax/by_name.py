"""What `import jax_neuronx` and `import libneuronxla` give where AWS's packages are not installed.

A program that imports one of them asks for the platform by name, so it gets it: see
`trnsim.jax.autoload`.
"""

from __future__ import annotations

from trnsim.jax import initialize

initialize()
