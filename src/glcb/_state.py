"""What is learnt, as arrays by name: the form in which every part hands out its state and takes it back."""

import numpy as np

State = dict[str, np.ndarray]


def fill(arrays: State, given: State) -> None:
    """Copy what is given into the arrays of the same name; raise ValueError or KeyError if it is not ours."""
    for name, own in arrays.items():
        new = given[name]
        if new.shape != own.shape or new.dtype != own.dtype:
            raise ValueError(f"{name} is {new.dtype} {new.shape}, expected {own.dtype} {own.shape}")
        own[...] = new
