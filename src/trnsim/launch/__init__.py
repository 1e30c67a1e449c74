"""Ranks as processes: launcher, supervisors, heartbeats, and a report of their world."""
