"""JAX on the emulated device."""
