"""Instructions of the Scalar Engine: activation functions."""
