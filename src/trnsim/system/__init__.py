"""Chip, instance, UltraServer and fleet: closed forms for time and cost above one node.

``model`` reads a model's shape, ``platform`` gives the facts of an instance, ``training`` and
``serving`` estimate time and cost, ``assess`` decides for an inventory of workloads, and ``claims``
checks published claims. Every estimate is an interval and lists the inputs that it is based on.
Nothing here simulates a schedule.
"""
