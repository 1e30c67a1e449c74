"""After a move: when to fall back, which GPUs to keep, which alerts to set, and what was saved.

`limits` are figures of a decision that a running service is held against; `capacity`, `split`,
`alerts` and `dashboard` follow from them; `files` writes all of them; `realised` reads bills.
"""
