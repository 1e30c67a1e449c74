"""Functions and generators of the engines that numpy does not have, on arrays."""
