"""``nccom-test``: the time of collectives on emulated instances, size by size.

Nothing runs: a time is the fabric's, of a program of its own that the host starts
(`trnsim.fabric.floors`), as AWS's tool has launched its iterations. Some versions put several
collectives into a program, whose times are then nearer to those inside one.

`operations` has the operations and their arithmetic, `sizes` the messages, `options` an operation's
options, `ranks` and `metadata` the files of groups and of counts, `shapes` tensors
in SBUF, `times` the estimate, `streams` several operations at once, `values` what ``--check``
computes, `hosts` the nodes of MPI and of Slurm, `report` the table and the JSON, `notes` the lines
on stderr.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst.
"""
