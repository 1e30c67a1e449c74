"""A gate without a chip: kernels of a file checked, and compared with what they were.

It says of a kernel whether its values are those of a reference, whether it is legal and free of
races, how long it takes, and whether a change of it, or one of trnsim, moved that time. `trnsim
check` and the plugin of pytest ask the same functions.
"""
