"""The documented refusals of neuronx-cc, by error code."""
