"""Kubernetes: the API, a scheduler extension, and a device plugin of emulated instances."""
