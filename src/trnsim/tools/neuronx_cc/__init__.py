"""AWS's compiler by its name: `neuronx-cc compile` and `neuronx-cc list-operators`.

The answer is that of `trnsim compile` for the same graph, chip and flags. A file that says what it
is stands in place of the NEFF.

Source: aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst.
"""
