"""Neural policies, on JAX."""
