"""AWS's `neuron_parallel_compile`: graphs of a program collected, compiled, and their cache.

    collection   the program runs with NEURON_EXTRACT_GRAPHS_ONLY=1 and stores its graphs
    compilation  all stored graphs are compiled (`trnsim.jax.parallel_compilation`)
    maintenance  files and locks are removed
    analysis     operators that AWS's compiler refuses, as result.json

Source: aws-neuron-sdk frameworks/torch/torch-neuronx/api-reference-guide/training/
pytorch-neuron-parallel-compile.rst.
"""
