"""Training: the memory, the schedule and the time of a layout, and of a whole run."""
