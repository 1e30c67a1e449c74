"""After a move: when to fall back, which GPUs to keep, which alerts to set, and what was saved.

`limits` has the predicted figures that a moved workload must keep; `capacity`, `split`, `alerts`
and `dashboard` follow from these figures; `files` writes all of them; `realised` reads bills.
"""
