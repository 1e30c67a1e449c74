"""Families of architectures: functions from a configuration to sizes."""
