"""Move, try or stay: a decision for each workload of a company, with its evidence.

Rooms, in the order of the steps: `inventory` reads what a company runs today, `scan` what in its
programs stands in the way of another accelerator, `times` predicts, `candidates` finds places and
prices, `rules` judges by the source document, `compare` and `verdict` decide, `decision` is a file.
"""
