"""Errors of matrix factorisations."""

from __future__ import annotations

from .base import Got, GpuTensorError, must


class LinAlgError(GpuTensorError, RuntimeError):
    """Error for a matrix that is singular or not positive-definite, and for an iteration that did
    not converge."""


def not_finished(op: str, words: str) -> GpuTensorError:
    """Make the error for an iteration that did not converge. words: the library's own message."""
    return must(
        op, "A", "have values for which the iteration converges", Got(words), kind=LinAlgError
    )


# Maps a part of an operator's name to the meaning of LAPACK's `info` for that operator.
_REASONS = {
    "cholesky": "is not positive-definite (the leading minor of order {} is not positive)",
    "lstsq": "did not converge (failed to converge: {})",
}


def not_solvable(api_name: str, info: int, number: int | None) -> LinAlgError:
    """Make the error for a matrix that cannot be solved. number: the matrix's index in the batch.
    Source: _linalg_check_errors."""
    op = api_name.removeprefix("torch.")
    found = [text for part, text in _REASONS.items() if part in op]
    reason = (found or ["is singular (the diagonal element {} is zero)"])[0].format(info)
    which = "A" if number is None else f"A[{number}]"
    return LinAlgError(f"{op}: {which} {reason}")
