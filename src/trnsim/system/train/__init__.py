"""Training: memory, pipeline schedule and time of a layout's step, and of a whole run."""
