"""A pilot: one workload on both machines, with the same data, steps and requests.

`logs` reads the logs of the runs, in several formats.
"""
