"""Shared fixtures of oracles with many small programs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Run PyTorch with one thread, which is faster for small programs, and ignore warnings of both
    libraries."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(before)
