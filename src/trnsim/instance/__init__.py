"""The emulated instance: its devices and cores, and the state of what runs on it."""
