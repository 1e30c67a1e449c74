"""Where ranks lie: machines of equal instances, and exchanges between their ranks."""
