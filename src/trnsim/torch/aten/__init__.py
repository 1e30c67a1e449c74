"""ATen's operators, called on tensors of known shapes, as graphs."""
