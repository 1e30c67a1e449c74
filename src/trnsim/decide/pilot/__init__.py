"""A pilot: one workload on both machines, with the same data, steps and requests.

`logs` reads what the runs wrote, whatever wrote it.
"""
