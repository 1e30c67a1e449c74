"""Schedulers of clusters: Kubernetes and Slurm place jobs on emulated instances."""
