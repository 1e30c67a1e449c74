"""The record of a device: calls in order, their time, the HBM they held, and reports of these.

A framework tells this room which calls ran (`call_log`), which tensors live in HBM (`hbm`), and
where in the program that was (`Scope`, `program_line`). Device time, reports and errors are then
the same for every framework. The room imports none, and knows no framework's tensors or operators.
"""
