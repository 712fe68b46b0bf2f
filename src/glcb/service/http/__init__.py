"""The HTTP side of the service: two hot routes without any detour, the others by Starlette."""
