"""What runs on the emulated instance: one small file a process, in a folder of the user's."""
