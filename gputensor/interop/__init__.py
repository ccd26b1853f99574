"""Registration of tensors in libraries that keep their own tables of array types.

Each library has a module here, its shim.

Note [Clients]: most libraries accept objects with `__array_namespace__`, `__array__` or DLPack and
need no shim. Dask, einops, opt_einsum, torch.utils.data and xarray look up the type of an array in
a table of their own. `gputensor.__init__` adds a finder to `sys.meta_path` that reacts to the
import of these clients' modules, and to no other. The client's own loader loads the module, and
then `register(module)` of the shim runs. Clients that were imported before gputensor are registered
at once. A shim is loaded only with its client and imports nothing from it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def find_spec(finder: object, name: str, *where: Any) -> ModuleSpec | None:
    """Find a client's module with the other finders. Return its spec, with a loader that also
    registers tensors."""
    others = (f.find_spec(name, *where) for f in sys.meta_path if f is not finder)
    spec = next(filter(None, others), None)
    loader: Any = spec and spec.loader
    if loader is None:
        return spec
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        register(module)

    # Only this loader object is changed, so inspect and importlib.resources still see its class.
    loader.exec_module = exec_module
    return spec


def register(client: ModuleType) -> None:
    """Add tensors to the table of a client's module. If this fails, because this version of the
    client has a table of another form, issue a warning. The client then still works with its other
    types."""
    shim = import_module(f"{__name__}.{client.__name__.partition('.')[0]}")
    try:
        shim.register(client)
    except Exception as problem:
        import warnings

        what = f"{client.__name__} does not take gputensor's tensors ({problem!r})"
        warnings.warn(what, RuntimeWarning, stacklevel=2)
