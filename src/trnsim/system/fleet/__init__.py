"""A fleet of chips that serves and trains: who has which chips in each hour, and what that brings.

What it does not do: requests one by one (system/serve), steps of training (system/train).
"""
