"""`torch_neuronx`: models traced to programs of a NeuronCore, saved, loaded and run.

`by_name` has the modules as programs import them. It also answers the names of `trnsim.torch`, the
device "neuron", for which `import torch_neuronx` stands in newer programs. The form of a traced
module and its run are those of `trnsim.torch.traces`.
"""
