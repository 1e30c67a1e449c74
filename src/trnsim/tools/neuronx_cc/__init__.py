"""AWS's compiler by its name: `neuronx-cc compile` and `neuronx-cc list-operators`.

The result is that of `trnsim compile` for the same graph, chip and flags. Instead of a NEFF, a file
of trnsim is written, which says so in its content.

Source: aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst.
"""
