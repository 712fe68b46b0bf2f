"""Numba support: the kernel decorator, packed arguments, prefetching and the cell index."""
