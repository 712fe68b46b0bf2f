"""Workers on the nodes of a Ray cluster."""

from glcb.service.config import ServiceSettings


def serve_on_ray(settings: ServiceSettings) -> None:
    """Start workers on a Ray cluster."""
    raise NotImplementedError
