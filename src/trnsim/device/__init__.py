"""The record of a device: calls in order, their time, the HBM they held, and reports of these.

A framework reports the calls that ran (`call_log`), the tensors that live in HBM (`hbm`), and the
place in the program (`Scope`, `program_line`). Device time, reports and errors are then the same
for every framework. This package imports none, and knows no framework's tensors or operators.
"""
