"""Places of ranks: machines of equal instances, and exchanges between their ranks."""
