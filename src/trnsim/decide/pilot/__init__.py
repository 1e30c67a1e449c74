"""Pilot of a move: one workload on today's instances and on a candidate's, with the same work.

`choose` selects the workload by the value of its pilot (`pilot_value`); `sides` are the runs, and
`thresholds` the results that they must reach; `plan` and `files` write the pilot. After the runs
`measure` reads their logs (by `trnsim.calibrate.logs`), `refit` corrects the predictions, `renew`
decides again, and `document` writes the result.
"""
