"""`torch_neuronx.proto`: protobufs, which are not here (`trnsim.xla.neuronx.protobufs`)."""
