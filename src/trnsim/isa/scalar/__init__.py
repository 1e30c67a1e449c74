"""Instructions of the Scalar Engine: activation functions and their reductions."""
