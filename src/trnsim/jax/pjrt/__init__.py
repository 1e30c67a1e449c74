"""The device as JAX sees it: PJRT's functions in Python, a file for each family of handles.

`trnsim.jax.pjrt.table` makes them a table in memory; `trnsim.jax.pjrt.structs` knows the layout of
their arguments.
"""
