"""``neuron-top``: a screen of the current work of programs, from the reports of neuron-monitor.

`view` chooses the figures of a program or of all, `tree` lists memory by core, `drawing` lays both
out for a width, `screen` shows it in a terminal. Sections and keys are those of aws-neuron-sdk
tools/neuron-sys-tools/neuron-top-user-guide.rst.
"""
