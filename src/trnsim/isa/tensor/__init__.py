"""Instructions of the Tensor Engine: products and transposes through the systolic array."""
