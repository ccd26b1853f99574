"""Run a kernel over the cases of a small file and compare its output with a reference.

`blur.check.py`, next to `blur.cu`, has a function for each kernel, with the kernel's name:

    def blur(random):                      # a numpy.random.Generator
        for height, width in [(1, 1), (7, 33)]:
            src = random.random((height, width), np.float32)
            dst = np.empty_like(src)
            yield {"grid": (2, 1), "block": (32, 8), "args": (src, dst, width, height),
                   "expect": {"dst": reference(src)}}

A case may also have "shared" bytes and the tolerances "rtol" and "atol", by default 0. In the file,
the dict `kernels` maps a function's name to an entry, or to several instances of a template:
`{"scale": ["scale<float>", "scale<double>"]}`. A function with two parameters receives the instance
as the second argument. `defines` are macros, `options` the arguments of `Kernel`. A
`blur.check.json` describes cases without Python; see `_json_cases`. Arrays are NumPy arrays; on a
GPU they are copied to the device and back.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import itertools
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core import errors
from ..runtime.emulator import nvrtc_options, source
from . import text
from .declaration import NUMBER, POINTER, kernels_of
from .kernel import Kernel

Case = Mapping[str, Any]
_KEYS = {"grid", "block", "shared", "args", "expect", "rtol", "atol", "symbols"}


class Mismatch(errors.GpuTensorError):
    """The error for a kernel's output that differs from the reference, or for a case that cannot be
    run."""


@dataclass(frozen=True, slots=True)
class Check:
    """One kernel and its test cases."""

    kernel: Kernel
    cases: Callable[[np.random.Generator], Iterable[Case]]

    def run(self, seed: int = 0, limit: int | None = None) -> int:
        """Run the cases and return their number. Raises: Mismatch, KernelError."""
        count = 0
        for case in itertools.islice(self.cases(np.random.default_rng(seed)), limit):
            run_case(self.kernel, case, f"case {count}")
            count += 1
        return count


class _Given(NamedTuple):
    """One kernel and its test cases, read from a file. entry: the kernel's name, a template
    instance, or a list of instances."""

    entry: Any
    cases: Callable[..., Iterable[Case]]
    defines: Mapping[str, object]
    options: Sequence[str]


def checks_of(
    path: str | os.PathLike[str], spec: str | os.PathLike[str] | None = None
) -> list[Check]:
    """Return the checks of a `.cu` file, read from `spec` or the default file. Raises: Mismatch."""
    path = os.fspath(path)
    file = _file_beside(path) if spec is None else os.fspath(spec)
    kernels = _from_json(file) if file.endswith(".json") else _from_python(file, path)
    if not kernels:
        why = "no function has a kernel's name, so nothing would be run"
        raise Mismatch(f"{os.path.basename(file)}: {why}")
    return [_check(path, one, entry) for one in kernels for entry in _listed(one.entry)]


def _check(path: str, given: _Given, entry: str) -> Check:
    settings: Any = {"defines": given.defines, "options": given.options}
    kernel = Kernel(Path(path), _instance(path, entry, given.options), **settings)
    return Check(kernel, _cases_of(given.cases, entry))


def _file_beside(path: str) -> str:
    """Return the name of the default file of cases, which is beside the kernel's file: for `x`, it
    is `x.check.py` or `x.check.json`."""
    stem = path.removesuffix(".cu")
    for file in (f"{stem}.check.py", f"{stem}.check.json"):
        if os.path.exists(file):
            return file
    raise Mismatch(
        f"{os.path.basename(path)}: no {os.path.basename(stem)}.check.py or .check.json beside "
        f"it" + skeleton(path)
    )


def _from_json(file: str) -> list[_Given]:
    found = []
    for name, one in json.loads(Path(file).read_text(encoding="utf-8")).items():
        missing = [key for key in ("grid", "block", "args", "reference") if key not in one]
        if missing:
            raise Mismatch(f"{os.path.basename(file)}: {name}: '{missing[0]}' must be given")
        cases = _json_cases(one, os.path.dirname(file))
        entry, defines = one.get("entry", name), one.get("defines", {})
        found.append(_Given(entry, cases, defines, one.get("options", ())))
    return found


def _from_python(file: str, path: str) -> list[_Given]:
    module = _module(file)
    defines, options = getattr(module, "defines", {}), getattr(module, "options", ())
    entries = {n: n for n, _ in kernels_of(_text_of(path, options)) if hasattr(module, n)}
    entries |= dict(getattr(module, "kernels", {}))
    missing = [name for name in entries if not callable(getattr(module, name, None))]
    if missing:
        raise Mismatch(f"{os.path.basename(file)}: no function '{missing[0]}' gives its cases")
    return [_Given(e, getattr(module, name), defines, options) for name, e in entries.items()]


def _text_of(path: str, options: Sequence[str] = ()) -> str:
    return text.load(Path(path), "check", nvrtc_options.parse(options).folders).text


def _instance(path: str, entry: str, options: Sequence[str]) -> str:
    """Return `entry`, or `entry<>` for a template whose parameters all have defaults. Raises:
    Mismatch for a template with a parameter that has no default."""
    if "<" in entry:
        return entry
    template = _templates(_text_of(path, options)).get(entry)
    if template is not None and not all(source.template_defaults(template)):
        example = f'kernels = {{"{entry}": "{_example(entry, template)}"}}'
        raise Mismatch(
            f"{os.path.basename(path)}: {entry} is a template<{template.strip()}>; "
            f"{example} in the file with the cases says of what (in JSON, 'entry')"
        )
    return f"{entry}<>" if template is not None else entry


def _templates(kernels: str) -> dict[str, str]:
    """Return the template parameters of each kernel template."""
    found = source.kernels(source.ENTRY, source.without_comments(kernels))
    return {m["name"]: m["arguments"] for m in found if m["template"]}


def _example(entry: str, template: str) -> str:
    """Return an instance of a template as an example, such as `scale<float, 32>`."""
    values = [
        default or ("float" if part.split()[0] in ("typename", "class") else "32")
        for part, default in zip(
            source.split_arguments(template), source.template_defaults(template)
        )
    ]
    return f"{entry}<{', '.join(values)}>"


def _cases_of(function: Callable[..., Iterable[Case]], entry: str) -> Callable[..., Iterable[Case]]:
    """Return the function that yields the cases. If the function has two parameters, bind the
    second one, `entry`, to the kernel's entry."""
    wants_entry = len(inspect.signature(function).parameters) > 1
    return functools.partial(function, entry=entry) if wants_entry else function


def skeleton(path: str) -> str:
    """Return the text of a file of cases for the first kernel. The user must complete the file.
    Return "" if there is no kernel, or if its declaration cannot be read."""
    kernels = _text_of(path)
    name = next((name for name, _ in kernels_of(kernels)), None)
    if name is None:
        return ""
    template = _templates(kernels).get(name)
    entry = name if template is None else _example(name, template)
    made, given, expected = [], [], []
    try:
        taken = Kernel(Path(path), entry).declaration.taken
    except errors.KernelError:  # for example, the template needs other arguments
        return ""
    for parameter in taken:
        element = parameter.element
        given.append(parameter.name if parameter.kind == POINTER else "n")
        if parameter.kind == POINTER and element is not None and element.dtype is not None:
            kind = element.dtype.name
            values = f"np.zeros(n, '{kind}')"
            if parameter.is_const:
                values = f"random.uniform(0, 100, n).astype('{kind}')"
            made.append(f"        {parameter.name} = {values}")
            if not parameter.is_const:
                expected.append(f"'{parameter.name}': ...")
        elif parameter.kind != NUMBER or element is None or element.dtype.is_floating_point:
            given[-1] = "1.0" if parameter.kind == NUMBER else "None"
    args = ", ".join(given) + ("," if len(given) == 1 else "")
    return "\n".join([
        f"; write one, such as {Path(path).stem}.check.py:", "", "import numpy as np", "",
        *([f'kernels = {{"{name}": "{entry}"}}', ""] if template is not None else []),
        f"def {name}(random):", "    for n in (1, 33, 1000):", *made,
        f"        yield {{'grid': -(-n // 256), 'block': 256, 'args': ({args}),",
        f"               'expect': {{{', '.join(expected)}}}}}",
    ])  # fmt: skip


def _module(path: str) -> Any:
    name = "gputensor_check_" + "".join(c if c.isalnum() else "_" for c in os.path.basename(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Compile the text itself: Python looks up bytecode by the file's time and size, and an edit
    # within one second can leave both unchanged.
    exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    return module


# --- one case -----------------------------------------------------------------------------------


def run_case(kernel: Kernel, case: Case, title: str) -> None:
    """Launch the kernel once, on copies of the case's arrays, and compare."""
    unknown = set(case) - _KEYS
    if unknown:
        known = f"unknown {', '.join(sorted(unknown))}; a case has {', '.join(sorted(_KEYS))}"
        raise Mismatch(f"{kernel.entry}: {title}: {known}")
    taken = kernel.declaration.taken
    args = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in case["args"]]
    for name, values in case.get("symbols", {}).items():
        kernel.set(name, values)
    given, back = _placed(args)
    kernel.launch(*given, grid=case["grid"], block=case["block"], shared=int(case.get("shared", 0)))
    back()
    results = {p.name: a for p, a in zip(taken, args) if isinstance(a, np.ndarray)}
    expect = case.get("expect", {})
    for name, wanted in expect.items():
        if name not in results:
            known = f"({', '.join(results)})"
            raise Mismatch(f"{kernel.entry}: {title}: no array parameter '{name}' {known}")
        _compare(kernel.entry, title, name, results[name], np.asarray(wanted), case, results)


def _placed(args: list[Any]) -> tuple[list[Any], Callable[[], None]]:
    """Return arguments for the launch, and a function that copies array contents back to the
    host."""
    from .. import runtime

    cuda = runtime.cuda()
    if cuda.is_emulated:
        return args, lambda: None
    from ..exchange.numpy.bridge import from_numpy

    there = [from_numpy(a).to("cuda") if isinstance(a, np.ndarray) else a for a in args]

    def back() -> None:
        for here, moved in zip(args, there):
            if isinstance(here, np.ndarray):
                here[...] = moved.cpu().numpy()

    return there, back


def _compare(
    entry: str, title: str, name: str, got: Any, wanted: Any, case: Case, arrays: Mapping[str, Any]
) -> None:
    if got.shape != wanted.shape:
        rule = f"must have its shape {got.shape} (got {wanted.shape})"
        raise Mismatch(f"{entry}: {title}: the reference of '{name}' {rule}")
    rtol, atol = case.get("rtol", 0), case.get("atol", 0)
    exact = got.dtype.kind not in "fcV" or not (rtol or atol)
    if exact:
        same = (got == wanted) | ((got != got) & (wanted != wanted))
    else:
        wide = np.float64 if got.dtype.kind != "c" else np.complex128
        x, y = got.astype(wide), wanted.astype(wide)
        same = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
    if np.all(same):
        return
    at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])[: got.ndim]
    wrong = int(np.size(same) - np.count_nonzero(same))
    shapes = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in arrays.items())
    raise Mismatch(
        f"{entry}: {title}: '{name}'[{', '.join(map(str, at))}] is {got[at]} and must be "
        f"{wanted[at]} ({wrong} of {got.size} elements differ; {shapes}; grid {case['grid']}, "
        f"block {case['block']})"
    )


# --- JSON ---------------------------------------------------------------------------------------


def _json_cases(given: Mapping[str, Any], folder: str) -> Callable[..., Iterator[Case]]:
    """Return the cases of a JSON file: one for each combination of `sizes`, with random arrays.

        {"scale": {"sizes": {"n": [1, 33, 1000]}, "grid": ["(n + 255) // 256"], "block": [256],
                   "args": {"x": "float32[n]", "y": "float32[n]", "factor": "2.0", "n": "n"},
                   "reference": "scale_reference.py:scale"}}

    The reference function receives the arguments by name and returns {parameter: array}.
    """
    file, _, function = given["reference"].partition(":")
    reference = getattr(_module(os.path.join(folder, file)), function)
    sizes = given.get("sizes", {})

    def cases(random: np.random.Generator) -> Iterator[Case]:
        for values in itertools.product(*sizes.values()):
            names = dict(zip(sizes, values))
            args = {arg: _json_argument(one, names, random) for arg, one in given["args"].items()}
            yield {
                "grid": tuple(int(_evaluated(e, names)) for e in _listed(given["grid"])),
                "block": tuple(int(_evaluated(e, names)) for e in _listed(given["block"])),
                "shared": int(_evaluated(given.get("shared", 0), names)),
                "args": tuple(args.values()), "expect": reference(**args),
                "rtol": given.get("rtol", 0), "atol": given.get("atol", 0),
            }  # fmt: skip

    return cases


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _json_argument(given: Any, names: Mapping[str, int], random: np.random.Generator) -> Any:
    kind, bracket, rest = str(given).partition("[")
    if not bracket:
        return _evaluated(given, names)
    shape = tuple(int(_evaluated(e, names)) for e in rest.rstrip("] ").split(","))
    element = np.dtype(kind.strip())
    if element.kind in "iu":
        return random.integers(0, 100, shape).astype(element)
    if element.kind == "b":
        return random.random(shape) < 0.5
    return random.uniform(-1, 1, shape).astype(element)


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg,
}  # fmt: skip


def _evaluated(given: Any, names: Mapping[str, int]) -> Any:
    """Evaluate an arithmetic expression of numbers and sizes."""

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.operand))
        known = ", ".join(names) or "no sizes"
        raise Mismatch(f"{given!r} must be arithmetic of numbers and {known}")

    return value(ast.parse(str(given).strip(), mode="eval").body)
