"""A pilot: one workload on both machines, with the same data, steps and requests.

Logs of the runs are read by `trnsim.calibrate.logs`.
"""
