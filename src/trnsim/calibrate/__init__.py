"""Calibration: logs of what a user measured, and the factors that they give estimates.

`logs` reads the logs; `row` puts their times beside estimates; `checks` names rows that cannot be;
`fit` has the partially pooled model; `calibration` is the answer; `suggestion` is what to measure
next.
"""
