"""`gputensor backend new NAME`: write the package of a new device, with tests.

The files are made from template/. `examples/openreg` is the output for the name openreg.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gputensor.devices.backend import BACKENDS, check_name
from gputensor.core import errors
from gputensor.runtime.files import write_text

from ..output import FINE, Arguments, Refusal, print_json

# File of the template -> path in the package, where {name} is the device's name.
FILES = {
    "pyproject.toml.txt": "pyproject.toml", "readme.txt": "README.md",
    "init.py.txt": "gputensor_{name}/__init__.py", "runtime.py.txt": "gputensor_{name}/runtime.py",
    "kernels.py.txt": "gputensor_{name}/kernels.py",
    "operators.py.txt": "gputensor_{name}/operators.py", "test.py.txt": "tests/test_{name}.py",
}  # fmt: skip


def main(argv: list[str]) -> int:
    parser = Arguments("backend new", "Write the package of a new device; its tests pass as it is.")
    parser.add_argument("name", help="in gt.device(NAME), gt.NAME and x.NAME()")
    parser.add_argument(
        "--key", choices=tuple(BACKENDS), default="PrivateUse1", help="its dispatch key"
    )
    parser.add_argument("--into", metavar="DIR", help="the folder to make (default: ./NAME)")
    arguments = parser.parse_args(argv)
    name = arguments.name
    try:
        check_name(name)
    except errors.ArgumentError as error:
        raise Refusal(str(error)) from None
    folder = Path(arguments.into or name)
    if folder.exists():
        raise Refusal(f"'--into' must be a new folder (got {folder}, which exists)")
    written = []
    for path, text in render(name, arguments.key).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)
        written.append(str(target))
    if arguments.json:
        print_json({"name": name, "key": arguments.key, "files": written})
    else:
        print("\n".join(written))
        print(f"\nNext: cd {folder}; pip install -e .; pytest; gputensor backend check {name}")
    return FINE


def render(name: str, key: str) -> dict[str, str]:
    """Return a dict with every file of the package: path -> text."""
    found = {}
    for source, path in FILES.items():
        text = (files(__package__) / "template" / source).read_text(encoding="utf-8")
        found[path.format(name=name)] = text.replace("{name}", name).replace("{key}", key)
    return found
