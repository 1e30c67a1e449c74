"""A gate for changes of kernels that needs no chip.

It checks a kernel's values against a reference, its legality and its races, and its time against an
earlier one; a difference of times is split into the kernel's part and that of another trnsim.
`trnsim check` and the plugin of pytest call the same functions.
"""
