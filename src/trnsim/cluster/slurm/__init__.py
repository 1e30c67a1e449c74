"""Slurm: files that declare Neuron devices to it, and a launcher for the tasks of its steps.

It promises the devices, ranks and addresses of a step from SLURM_* and scontrol, and nothing about
Slurm's own decisions.
"""
