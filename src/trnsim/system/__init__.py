"""Chip, instance, UltraServer and fleet: closed forms for time and cost above one node.

``model`` reads what is to run, ``platform`` what it runs on, ``training`` and ``serving`` estimate,
``assess`` goes through an inventory, ``claims`` checks what has been written about these chips.
Every estimate is an interval and says on what it rests. No schedule is simulated here.
"""
