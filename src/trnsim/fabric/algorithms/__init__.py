"""The algorithms of collectives, each as phases of transfers."""
