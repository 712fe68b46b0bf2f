"""Encoders of contexts for tests."""

from typing import Any

from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema

FIRST = {"age": 30, "country": "FR", "member": True}


def opened(first: Any = FIRST, schema: Any = None, spare_slots: int | None = None) -> Encoder:
    encoder = Encoder(parse_schema(schema), first, spare_slots)
    encoder.commit(encoder.encode(first))
    return encoder


def encoded(encoder: Encoder, context: Any) -> list[float]:
    reading = encoder.encode(context)
    encoder.commit(reading)
    return [float(value) for value in reading.x]


def state(encoder: Encoder) -> tuple[Any, ...]:
    metadata, arrays = encoder.snapshot()
    return metadata, {name: array.tobytes() for name, array in arrays.items()}


def problems(encoder: Encoder, name: str) -> dict[str, int]:
    return dict(encoder.schema.features[name].problems)
