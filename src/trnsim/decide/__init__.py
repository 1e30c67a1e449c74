"""Decision on each workload of a company: move it to AWS's chips, try a pilot, or stay.

In the order of the steps: `inventory` reads today's workloads, `scan` finds code that AWS's chips
do not run unchanged, `times` predicts speeds, `candidates` chooses instances and prices, `rules`
judges by published advice, `compare` and `verdict` decide, and `assess` runs all of these.
`decision` is the result as a file, `document` as a page. `pilot` tests a decision by measurements,
`guard` watches a workload that has moved, `difference` and `why` explain how two answers differ.
"""
