"""Packages of the Neuron SDK that public kernels import besides `nki`.

Each is a module here, which the import finder of last resort answers under its own name.
"""
