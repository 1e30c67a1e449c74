"""Traced programs: stored as data, and run as operators of TorchScript.

`torch_neuronx.trace` returns a ScriptModule whose program is a buffer of bytes (`stored`), which
the operators `torch.ops.neuron` read and run (`operators`, `instances`). They are registered with
the device, so a saved module loads in any process that has the device, without the model's code.
"""
