"""Neural policies. They train with JAX and optax, the extra ``baselines``."""
