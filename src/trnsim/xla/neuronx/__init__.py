"""`torch_neuronx`: models traced to programs of a NeuronCore, saved, loaded and run.

`by_name` has the modules as programs import them. It also answers the names of `trnsim.torch`, the
device "neuron", for which `import torch_neuronx` stands in newer programs. `trnsim.torch.traces`
has the form of a traced module, and its run.
"""
