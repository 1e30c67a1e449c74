"""An emulated instance that a program steps into: `trnsim shell`.

On Linux the program gets a mount namespace of its own, in which the files that Neuron's clients
look for exist. Nothing is written outside of it, so nothing is left when it ends. `linux_calls` has
the system calls, `namespace` enters, `cover` adds files to folders, `contacts` lists the files,
`sysfs` and `counters` give their content, `keeper` refreshes them, `session` runs the program.
"""
