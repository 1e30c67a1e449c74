"""A fleet of chips that serves and trains: allocation of chips by the hour, and its returns.

What it does not do: requests one by one (system/serve), steps of training (system/train).
"""
