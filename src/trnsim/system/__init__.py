"""Chip, instance, UltraServer and fleet: closed forms for time and cost above one node.

``model`` reads a model's shape, ``platform`` gives the facts of an instance, ``training`` estimates
time and cost, ``serve`` runs requests through a server step by step, ``assess`` decides for an
inventory of workloads, and ``claims`` checks published claims. Every estimate is an interval and
says what it is based on.
"""
