"""Check that a Python kernel accepts the arguments of its schema.

The check runs once both the kernel and the schema are registered. It is only for users' kernels;
tests check native kernels. Argument types are not checked, because Python kernels seldom declare
them. Results are checked after each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core import errors

if TYPE_CHECKING:
    from ..registered import Definition, Kernel, Key, Registered


def check(
    operator: Registered, definition: Definition, kernel: Kernel, key: Key | None = None
) -> None:
    """Check one kernel. Raises: RegistrationError with operator, schema, signature, key,
    registration sites and the mismatch."""
    reason = _mismatch(definition, kernel)
    if reason is not None:
        raise errors.kernel_does_not_fit(operator, definition, kernel, key, *reason)


def _mismatch(definition: Definition, kernel: Kernel) -> tuple[str, str] | None:
    """Return the kernel's signature and a text that describes the mismatch. Return None if the
    kernel fits, or if Python cannot read its signature."""
    if kernel.convention not in ("user", "keyset", "boxed") or kernel.function is None:
        return None
    import inspect

    try:
        signature = inspect.signature(kernel.function)
    except (TypeError, ValueError):  # the kernel is a builtin without a signature
        return None
    schema = definition.schema
    if kernel.convention == "boxed":
        names, keywords = ["operator", "key_set", "stack"], []
    else:
        names = ["key_set"] if kernel.convention == "keyset" else []
        names += [a.name for a in schema.positional]
        keywords = [a.name for a in schema.keyword_only]
    try:
        signature.bind(*names, **dict.fromkeys(keywords))
    except TypeError as error:
        given = f"{len(names)} positional arguments"
        if keywords:
            given += f" and {', '.join(keywords)} by keyword"
        return str(signature), f"the schema gives it {given}: {error}"
    return None
