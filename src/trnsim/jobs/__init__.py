"""Job specs: one model of a job, read from and written to the formats of schedulers and services.

    file --formats.read--> JobSpec: Job, lines, unresolved values
    JobSpec --rules.check--> findings, each with file, line, source and fix
    Job --formats.write--> another format
    Job --price--> the plan's time, and the bill
    cluster and nodes that run it: the room `cluster`

A spec is data: no command in it is run, no image is pulled, and no variable is expanded from the
environment of trnsim.
"""
