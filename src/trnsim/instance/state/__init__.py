"""The state of processes on the emulated instance: one small file each, in a folder of the user."""
