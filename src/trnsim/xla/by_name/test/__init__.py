"""`torch_xla.test`: helpers of example programs."""
