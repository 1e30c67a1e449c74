"""After a move: rules of fallback, GPUs to keep, alerts to set, and the savings.

`limits` has the predicted figures that a moved workload must keep; `capacity`, `split`, `alerts`
and `dashboard` follow from these figures; `files` writes all of them; `realised` reads bills.
"""
