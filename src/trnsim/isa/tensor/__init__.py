"""Instructions of the Tensor Engine: matmuls and transposes through the systolic array."""
