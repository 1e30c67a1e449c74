"""Functions and random generators of the engines that numpy lacks, on arrays."""
