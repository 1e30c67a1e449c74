"""After a move: when to fall back, what to keep for it, what to watch, and what was saved.

`limits` are figures of a decision that a running service is held against; `capacity`, `split`,
`alerts` and `dashboard` are made from them; `files` writes all of them; `realised` reads bills.
"""
