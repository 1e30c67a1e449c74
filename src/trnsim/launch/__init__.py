"""Ranks as processes: what starts, watches and ends them, and the one report of their world."""
