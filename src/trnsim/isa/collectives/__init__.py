"""Collectives: instructions by which the NeuronCores of several ranks exchange tensors."""
