"""Registration of tensors in libraries that have their own tables of array types: one module per
library.

Note [Clients]: most libraries accept objects with `__array_namespace__`, `__array__` or DLPack and
need nothing here. Dask, einops, opt_einsum, torch.utils.data and xarray look up a tensor's type in
their own tables and ignore types that are not in them. So `gputensor.__init__` adds a finder to
`sys.meta_path`, which returns None for modules of other libraries. A module of these libraries is
loaded by its own loader; then `register(module)` of the shim with the client's name runs. Clients
imported before
gputensor are registered at once. A shim imports nothing of its client and is loaded only with it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def find_spec(finder: object, name: str, *where: Any) -> ModuleSpec | None:
    """Return the spec of a client's module from the other finders, with a loader that also
    registers."""
    others = (f.find_spec(name, *where) for f in sys.meta_path if f is not finder)
    spec = next(filter(None, others), None)
    loader: Any = spec and spec.loader
    if loader is None:
        return spec
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        register(module)

    # Only the loader of this module is changed, so inspect and importlib.resources still see its
    # class.
    loader.exec_module = exec_module
    return spec


def register(client: ModuleType) -> None:
    """Add tensors to the table of a client's module. If a later version of the client has another
    kind of table, warn; the client then still works for other types."""
    shim = import_module(f"{__name__}.{client.__name__.partition('.')[0]}")
    try:
        shim.register(client)
    except Exception as problem:
        import warnings

        what = f"{client.__name__} does not take gputensor's tensors ({problem!r})"
        warnings.warn(what, RuntimeWarning, stacklevel=2)
