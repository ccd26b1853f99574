"""gputensor/interop: registration with einops, opt_einsum and torch.utils.data."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gputensor as gt

NAMES = sorted(gt._CLIENTS)


def run(code: str, *path: Path) -> str:
    code = f"import sys; sys.path[:0] = {list(map(str, path))}\n{textwrap.dedent(code)}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def planted(folder: Path, name: str, text: str) -> None:
    """A package of the client's name that contains only the module with the table."""
    for parent in list(Path(*name.split(".")).parents)[:-1]:
        (folder / parent).mkdir(parents=True, exist_ok=True)
        (folder / parent / "__init__.py").touch()
    folder.joinpath(*name.split(".")).with_suffix(".py").write_text(text)


_LOOKUP = "class Table(dict):\n    def register(self, kind, function): self[kind] = function\n"
_CHUNKS = """concatenate_lookup = take_lookup = tensordot_lookup = empty_lookup = Table()
divide_lookup = einsum_lookup = percentile_lookup = numel_lookup = nannumel_lookup = Table()
to_numpy_dispatch = Table()
np_divide = _percentile = _numel_arraylike = _nannumel = None"""
TABLES = {
    "dask.array.backends": f"{_LOOKUP}{_CHUNKS}",
    "dask.array.chunk_types": "_HANDLED = []\nregister_chunk_type = _HANDLED.append",
    "dask.sizeof": f"{_LOOKUP}sizeof = Table()",
    "dask.tokenize": f"{_LOOKUP}normalize_token = Table()",
    "distributed.protocol.serialize": f"{_LOOKUP}dask_serialize = dask_deserialize = Table()",
    "einops._backends": "class AbstractBackend: pass",
    "opt_einsum.backends.dispatch": "_aliases = {}",
    "torch.utils.data._utils.collate": "default_collate_fn_map = {}",
    "xarray.namedarray.core": "_arrayfunction_or_api = ()",
}
SEEN = {
    "dask.array.backends": "client.to_numpy_dispatch",
    "dask.array.chunk_types": "client._HANDLED",
    "dask.sizeof": "client.sizeof",
    "dask.tokenize": "list(client.normalize_token)[1:]",
    "distributed.protocol.serialize": "client.dask_deserialize",
    "einops._backends": "client.AbstractBackend.__subclasses__()",
    "opt_einsum.backends.dispatch": "client._aliases",
    "torch.utils.data._utils.collate": "client.default_collate_fn_map",
    "xarray.namedarray.core": "client._arrayfunction_or_api",
}


@pytest.mark.full
@pytest.mark.parametrize("order", ["gputensor, {}", "{}, gputensor"])
@pytest.mark.parametrize("name", NAMES)
def test_a_client_is_registered_whichever_comes_first(tmp_path, name, order):
    planted(tmp_path, name, TABLES[name])
    code = f"""
        import {order.format(name)}, gc, inspect, importlib.resources
        client = sys.modules["{name}"]
        gc.collect()
        assert len({SEEN[name]}) == 1, {SEEN[name]}
        assert "gputensor.interop.{name.partition(".")[0]}" in sys.modules
        assert inspect.getsource(client).strip() == {TABLES[name]!r}
        assert importlib.resources.files("{name.rpartition(".")[0]}").is_dir()
        """
    run(code, tmp_path)


def test_without_clients_nothing_is_loaded():
    code = """
        import gputensor
        print(*[m for m in sys.modules if m.startswith("gputensor.interop")])
        import gputensor.interop.einops, gputensor.interop.opt_einsum
        import gputensor.interop.torch, gputensor.interop.xarray
        import gputensor.interop.dask, gputensor.interop.distributed
        clients = {"dask", "distributed", "einops", "opt_einsum", "torch", "xarray"}
        print(*clients & set(sys.modules))
        """
    assert run(code).split() == []


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_changed_is_warned_of_and_works_on(tmp_path, name):
    planted(tmp_path, name, "value = 1")
    code = f"""
        import warnings, gputensor
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            import {name}
        assert sys.modules["{name}"].value == 1
        print(*[w.message for w in found])
        """
    assert run(code, tmp_path).startswith(f"{name} does not take gputensor's tensors (Attribute")


@pytest.mark.full
def test_a_client_that_is_missing_or_fails_says_so_itself(tmp_path):
    planted(tmp_path, "einops._backends", "raise ValueError('its own')")
    code = """
        import gputensor
        for name in ("einops._backends", "opt_einsum.backends.dispatch"):
            try:
                __import__(name)
            except (ValueError, ModuleNotFoundError) as error:
                print(error)
        """
    planted(tmp_path, "opt_einsum.backends.other", "")
    lines = run(code, tmp_path).splitlines()
    assert lines == ["its own", "No module named 'opt_einsum.backends.dispatch'"]
