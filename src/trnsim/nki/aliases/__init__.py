"""Packages of the Neuron SDK that public kernels import besides `nki`.

Each is a module here. trnsim's import finder, the last to be asked, loads it under the name of the
SDK's package.
"""
