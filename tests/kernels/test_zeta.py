"""Special functions whose number of steps must not depend on their operands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import zeta

import gputensor as gt

from ..cuda.support import requires_emulator


@requires_emulator
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_zeta_of_negative_bases_takes_few_steps(device: str) -> None:
    """The terms with negative bases are not added one by one: there may be 2^52 of them."""
    x = np.array([2.0, 3.0, 2.0, 3.0, 2.0, 5.0, 2.0])
    q = np.array([-2.5, -2.5, -1e15 + 0.5, -4e9 + 0.25, -1e-17, -0.75, 3.25])
    wanted = [
        sum((-2.5 + n) ** -2 for n in range(3)) + zeta(2, 0.5),
        sum((-2.5 + n) ** -3 for n in range(3)) + zeta(3, 0.5),
        np.pi**2 - 1e-15, zeta(3, 0.25) - zeta(3, 0.75), 1e34,
        zeta(5, 0.25) - 0.75**-5, zeta(2, 3.25),
    ]  # fmt: skip
    given = [gt.from_numpy(a).to(device) for a in (x, q)]
    found = gt.special.zeta(*given).cpu().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    second = gt.special.polygamma(2, gt.tensor([-1e15 + 0.5], dtype=gt.float64, device=device))
    assert second.abs().item() < 1e-12
