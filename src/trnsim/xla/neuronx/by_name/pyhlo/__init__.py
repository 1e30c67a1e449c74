"""`torch_neuronx.pyhlo`: protobufs, which are not here (`trnsim.xla.neuronx.protobufs`)."""
