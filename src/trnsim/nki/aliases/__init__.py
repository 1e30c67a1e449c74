"""Packages of the Neuron SDK that public kernels import besides `nki`.

Each is a module here, which the import finder of last resort loads under its own name.
"""
