"""Short cut functions for the CPU; see forms.py."""

from __future__ import annotations


from ..text import indent
from .parts import (
    ARRAYS, ELEMENT, LAST, NUMBER, OPERANDS, PARAMS, RECORDED, WRITTEN, apart, arrays, each,
    element_of, form, ints, is_plain, kept, others, params, records, run, storage, tensor, unless,
)  # fmt: skip


def functional(
    name: str, n: int, has_number: bool = False, n_params: int = 0, is_element: bool = False
) -> list[str]:
    """Return the form that calls loop(*arrays), which returns the result's array. n_params: the
    number of arguments after the operands. If it is not 0, the form calls loop(*arrays, *behind),
    where `behind` are stored arguments. is_element: True if a number is passed as an array of one
    element; see `element_of`."""
    operands = OPERANDS[:n]
    given = [*operands, *(["other"] if has_number else [])]
    passed = ", ".join([*given, *PARAMS[:n_params]])
    closed = ["loop", *(["behind"] if n_params else []), "geometry"]
    closed += [*(["params", "otherwise"] if n_params else []), "around"]
    closed += ["element"] if is_element else []
    setup = ["begin, finish" + ", fused" * (not n_params) + " = around"]
    setup += [*kept(n_params), *(LAST if is_element else ())]
    cast = []
    if n_params:
        setup.append("element = geometry.dtype.np")
        cast = ["if array.dtype is not element:", "    array = array.astype(element, copy=False)"]
    numbers = [NUMBER] if is_element else given[n:]
    values = [*ARRAYS[:n], *numbers, *(["*behind"] if n_params else [])]
    overflow = "the full call names the number that is too large" if has_number else ""
    doc = f"({passed}) -> the loop's result."
    return form(name, closed, doc, setup, [*given, *params(n_params)], [
        *(["nonlocal last"] if is_element else []),
        *others(n_params, f"otherwise({passed})"),
        *records(operands, given, in_chains=not n_params),
        *arrays(operands),
        *run(values, "array", overflow, element_of("other") if is_element else ()),
        *cast,
        *tensor("array"),
        RECORDED,
    ])  # fmt: skip


def reduction() -> list[str]:
    doc = "loop(x, *behind[:2], out, *behind[2:]) over a new array."
    closed = ["loop", "behind", "geometry", "params", "otherwise", "around"]
    setup = ["begin, finish = around", *kept(3), ELEMENT, "first, second, last = behind"]
    return form("reduction", closed, doc, setup, ["self", *params(3)], [
        *others(3, "otherwise(self, a, b, c)"),
        *records(("self",), ("self",)),
        *arrays(("self",)),
        "array = _empty(sizes, element)",
        *run(["x", "first", "second", "array", "last"]),
        *tensor("array"),
        RECORDED,
    ])  # fmt: skip


def inplace(name: str, n: int, has_number: bool = False, is_element: bool = False) -> list[str]:
    operands = OPERANDS[:n]
    number = ["other"] if has_number else []
    overflow = "nothing was written: NumPy converts the number first" if has_number else ""
    signature, values = [*operands, *number], [NUMBER] if is_element else number
    closed = ["loop", "element"] if is_element else ["loop"]
    setup = LAST if is_element else ()
    return form(name, closed, f"({', '.join(signature)}) -> self.", setup, signature, [
        *(["nonlocal last"] if is_element else []),
        *is_plain(operands, "CPU_KEYS", is_written=True),
        *storage(operands),
        *arrays(operands),
        *(apart("theirs", "x", "y") if n == 2 else ()),
        *run(
            [*ARRAYS[:n], *values, "x"], overflow=overflow,
            before=element_of("other") if is_element else (),
        ),
        *WRITTEN,
    ])  # fmt: skip


def out(name: str, n: int, has_number: bool = False) -> list[str]:
    """Return the form that writes to an `out` with the layout and dtype of the result."""
    operands, number = OPERANDS[:n], ["other"] if has_number else []
    overflow = "nothing was written: NumPy converts the number first" if has_number else ""
    given = [*operands, *number, "out"]
    theirs = [f"{x}._storage" for x in operands]
    return form(name, ["loop"], f"({', '.join(given)}) -> out.", (), given, [
        *is_plain(("out", *operands), "CPU_KEYS", is_written=True),
        "storage = out._storage",
        "if storage is None:",
        "    storage = out._get_storage()",
        *unless(*each("{} is storage", theirs)),
        *arrays(operands),
        "result = out._array",
        "if result is None:",
        "    result = out._get_array()",
        *[line for x, y in zip(theirs, ARRAYS) for line in apart(x, "result", y)],
        *run([*ARRAYS[:n], *number, "result"], overflow=overflow),
        "storage.version += 1",
        "return out",
    ])  # fmt: skip


def scaled(name: str, is_inplace: bool) -> list[str]:
    """Return the form with alpha. The form declines calls that autograd records, because their
    nodes would have to save alpha, too."""
    operands, closed = OPERANDS[:2], ["loop", *([] if is_inplace else ["geometry"]), "largest"]
    what = "self" if is_inplace else "the loop's result"
    doc = f"(self, other, alpha) -> {what}. alpha: a float up to `largest`."
    values = ["x", "y", "alpha"]
    return form(name, closed, doc, (), [*operands, "alpha"], [
        *unless("not -largest <= alpha <= largest"),
        *is_plain(operands, "CPU_KEYS", is_written=is_inplace),
        *(storage(operands) if is_inplace else ()),
        *arrays(operands),
        *(apart("theirs", "x", "y") if is_inplace else ()),
        *(run([*values, "x"]) if is_inplace else run([*values, "None"], "array")),
        *(WRITTEN if is_inplace else [*tensor("array"), "return tensor"]),
    ])  # fmt: skip


def into(n: int) -> list[str]:
    values = ", ".join(ARRAYS[:n])
    return [
        f"def into_{n}(loop: Any, geometry: Any) -> Callable[..., Any]:",
        '    """Return a function that allocates an array for the loop to write."""',
        f"    {ELEMENT}",
        "",
        f"    def into({values}):",
        "        array = _empty(sizes, element)",
        f"        loop({values}, array)",
        "        return array",
        "",
        "    return into",
    ]


def made(name: str, closed: list[str], array: str) -> list[str]:
    """Return the form for factories without an operand, or with an operand that determines only the
    layout."""
    setup = [ELEMENT] if "sizes" in array else []
    of = "array()" if "array" in closed else "uninitialised memory"
    if "asks" in closed:
        doc = f"size -> a tensor over {of}. asks: check the default device."
        plain = unless("_now() is not PLAIN", "asks and _places()[-1] is not CPU")
        body = [
            *ints(known="given" if "given" in closed else ""),
            *plain,
            *tensor(array),
            "return tensor",
        ]
        return form(name, closed, doc, setup, ["size"], body)
    plain = unless("self._keys is not CPU_KEYS", "_now() is not PLAIN")
    doc = f"self -> a tensor over {of}; autograd does not record it."
    return form(name, closed, doc, setup, ["self"], [*plain, *tensor(array), "return tensor"])


def filled() -> list[str]:
    """Return the form of `made` with a fill value. The value is compared exactly, because 0.0
    equals -0.0 and 1 equals True."""
    doc = "(size, value) -> a tensor over array(). asks: check the default device."
    closed = ["geometry", "array", "asks", "value"]
    return form("filled", closed, doc, ["kept = value"], ["size", "value"], [
        *unless("value is not kept and (not value or type(value) is not type(kept))"),
        *ints(),
        *unless("_now() is not PLAIN", "asks and _places()[-1] is not CPU"),
        *tensor("array()"),
        "return tensor",
    ])  # fmt: skip


def repeated(n: int) -> list[str]:
    """Return the form of factories with n numbers, which are compared as in `filled`."""
    given, kept = PARAMS[:n], each("{}0", PARAMS[:n])
    doc = f"({', '.join(given)}), numbers -> a tensor over array(). asks: as above."
    setup = [f"({kept[0]},) = numbers" if n == 1 else f"{', '.join(kept)} = numbers"]
    other = "{0} is not {0}0 and (not {0} or type({0}) is not type({0}0))"
    return form(f"repeated_{n}", ["geometry", "array", "asks", "numbers"], doc, setup, given, [
        *[line for test in each(other, given) for line in unless(test)],
        *unless("_now() is not PLAIN", "asks and _places()[-1] is not CPU"),
        *tensor("array()"),
        "return tensor",
    ])  # fmt: skip


def copied() -> list[str]:
    """Return the form of copies.

    For a view that permutes a whole tensor, the copied array is a view of that tensor's array,
    which takes half the time. That array is kept only if it is the storage's own array.
    """
    doc = "self -> a copy of a geometry, in NumPy's order. turns: the permuted base, its order."
    setup = ["begin, finish = around", "of, dims = turns"]
    return form("copied", ["geometry", "order", "turns", "around"], doc, setup, ["self"], [
        *records(("self",), ("self",)),
        "x = self._array",
        "if x is None:",
        "    base = self._autograd",
        "    if of is not None and type(base) is Tensor and base._geometry is of:",
        "        x = base._array",
        "    if x is None or x is not self._storage._array or self._offset:",
        "        x = self._get_array()",
        "    else:",
        "        x = self._array = x.transpose(dims)",
        *tensor("x.copy(order)"),
        RECORDED,
    ])  # fmt: skip


def copy_() -> list[str]:
    operands = OPERANDS[:2]
    return [
        "def copy_(self: Any, other: Any) -> Any:",
        '    """A small copy between elements of one dtype. Views use the full dispatch."""',
        *indent([
            *is_plain(operands, "CPU_KEYS", is_written=True),
            *storage(operands),
            *arrays(operands),
            *apart("theirs", "x", "y"),
            "x[...] = y",
            *WRITTEN,
        ]),
    ]  # fmt: skip
