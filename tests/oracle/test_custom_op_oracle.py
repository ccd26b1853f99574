"""Custom operators against PyTorch's: one program, run with both libraries.

Schemas from annotations, results, versions and gradients are equal; misuse raises an error of the
same class.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, List, Optional, Tuple

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

LIBRARIES = {"torch": torch, "gputensor": gt}


@pytest.fixture(autouse=True)
def _cleaned() -> Iterator[None]:
    from gputensor.custom import custom_op as ours

    before = set(ours._definitions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    for name in set(ours._definitions) - before:
        ours._definitions[name]._destroy()


def functions(lib: Any) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Return name -> (function, mutates_args), with the library's own types in the annotations."""
    Tensor = lib.Tensor
    cpu = lib.device("cpu")

    def one(x: Tensor) -> Tensor: ...
    def more(
        x: Tensor, y: Optional[Tensor], zs: Sequence[Tensor], oo: List[Optional[Tensor]]
    ) -> List[Tensor]: ...
    def numbers(
        x: Tensor, n: int, f: float = 1.5, b: bool = True, s: str = "hi", i: int = -3,
        e: float = 1e-12,
        nn: Optional[Sequence[int]] = None, ff: Optional[float] = None, fs: Sequence[float] = None,
    ) -> Tuple[Tensor, int, float, bool]: ...  # fmt: skip
    def kinds(
        x: Tensor, d: lib.dtype = lib.float64, dd: lib.device = cpu, do: Optional[lib.dtype] = None,
        *, k: float, of: lib.dtype = lib.bfloat16, on: Optional[lib.device] = None,
    ) -> None: ...  # fmt: skip
    def tupled(x: Tensor) -> Tuple[Tensor]: ...
    def several(x: Tensor, y: Tensor) -> Tuple[Tensor, List[Tensor], int]: ...
    def written(x: Tensor, ys: List[Tensor], o: Optional[Tensor], n: int) -> None: ...

    found: dict[str, tuple[Callable[..., Any], Any]] = {
        f.__name__: (f, ()) for f in (one, more, numbers, kinds, tupled, several)
    }
    found |= {
        "written": (written, ("ys", "o")),
        "unknown": (written, "unknown"),
        "set": (written, {"x"}),
    }
    for function, _ in found.values():  # PyTorch cannot resolve the names in this function
        function.__annotations__ = {
            name: eval(text, {"lib": lib, "Tensor": Tensor, **globals()})
            if isinstance(text, str)
            else text
            for name, text in function.__annotations__.items()
        }
    return found


def test_schemas_are_the_same_text() -> None:
    theirs, ours = functions(torch), functions(gt)
    assert list(theirs) == list(ours)
    for name, (function, mutates_args) in theirs.items():
        expected = torch.library.infer_schema(
            function, mutates_args=mutates_args, op_name=f"q::{name}"
        )
        found = gt.library.infer_schema(
            ours[name][0], mutates_args=mutates_args, op_name=f"q::{name}"
        )
        assert found == expected


# --- the same operator in both --------------------------------------------------------------------


class Side:
    """One library, and its operators of this file."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        Tensor, custom_op, numpy = lib.Tensor, lib.library.custom_op, lib.from_numpy

        def product(
            x: Tensor, ys: Sequence[Tensor], n: int, *, by: float = 2.0
        ) -> Tuple[Tensor, List[Tensor]]:
            first = numpy(x.detach().numpy() * ys[0].detach().numpy() * by)
            return first, [numpy(y.detach().numpy() * n) for y in ys]

        product.__annotations__ = {
            "x": Tensor, "ys": Sequence[Tensor], "n": int, "by": float, "return": Tuple[Tensor,
            List[Tensor]]
        }  # fmt: skip
        self.product = custom_op("q::product", product, mutates_args=())

        def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0], inputs[1][0])
            ctx.n, ctx.by, self.inputs = (
                inputs[2],
                keyword_only_inputs["by"],
                (type(inputs[1]), type(output[1])),
            )

        def backward(ctx: Any, g: Any, gs: Any) -> Any:
            x, y = ctx.saved_tensors
            self.needs = ctx.needs_input_grad
            grads = [h * ctx.n for h in gs]
            grads[0] = grads[0] + g * x * ctx.by
            return g * y * ctx.by, grads, None

        self.product.register_autograd(backward, setup_context=setup)

        def shift(x: Tensor, by: float) -> None:
            x.detach().numpy()[...] += by

        shift.__annotations__ = {"x": Tensor, "by": float, "return": None}
        self.shift = custom_op("q::shift", shift, mutates_args={"x"})

    def leaf(self, values: Any, grad: bool = True) -> Any:
        return self.lib.tensor(values, dtype=self.lib.float64, requires_grad=grad)


def both(program: Callable[[Side], Any]) -> None:
    theirs, ours = (program(Side(lib)) for lib in (torch, gt))
    assert ours == theirs


def test_results_and_gradients() -> None:
    def program(side: Side) -> Any:
        x, y, z = side.leaf([1.0, 2.0]), side.leaf([3.0, 4.0]), side.leaf([5.0], grad=False)
        first, rest = side.product(x, [y, z], 3, by=0.5)
        (first.sum() + rest[0].sum() * 2 + rest[1].sum()).backward()
        made = [t.tolist() for t in (first, *rest)]
        flags = [t.requires_grad for t in (first, *rest)]
        return (
            made,
            flags,
            x.grad.tolist(),
            y.grad.tolist(),
            z.grad,
            side.needs,
            side.inputs,
            first.grad_fn.name(),
        )

    both(program)


def test_second_derivatives() -> None:
    def program(side: Side) -> Any:
        x, y = side.leaf([1.0, 2.0]), side.leaf([3.0, 4.0])
        first, _ = side.product(x, [y], 3)
        (g,) = side.lib.autograd.grad((first * first).sum(), x, create_graph=True)
        return [t.tolist() for t in side.lib.autograd.grad(g.sum(), (x, y))]

    both(program)


def test_versions() -> None:
    def program(side: Side) -> Any:
        x = side.leaf([1.0, 2.0], grad=False)
        view = x[1:]
        result = side.shift(view, 2.0)
        saved = side.leaf([1.0]) * x[:1]
        before = saved._version
        with side.lib.no_grad():
            side.shift(saved, by=1.0)
        return (
            result,
            x.tolist(),
            x._version,
            view._version,
            saved._version - before,
            saved.requires_grad,
        )

    both(program)


def test_shapes() -> None:
    def program(side: Side) -> Any:
        meta = side.lib.empty(2, 3, device="meta")
        side.product.register_fake(
            lambda x, ys, n, *, by=2.0: (x.new_empty(x.shape), [y.new_empty(y.shape) for y in ys])
        )
        first, rest = side.product(meta, [meta[:1]], 1)
        return (
            tuple(first.shape),
            [tuple(r.shape) for r in rest],
            side.shift(meta, 1.0),
            first.device.type,
        )

    both(program)


def test_opcheck_says_the_same() -> None:
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")

    def program(side: Side) -> Any:
        def check(op: Any, *args: Any) -> Any:
            found = side.lib.library.opcheck(op, args, test_utils=tests, raise_exception=False)
            return {name: said == "SUCCESS" for name, said in found.items()}

        def custom(
            body: Any,
            mutates_args: Any = (),
            schema: str = "(Tensor x) -> Tensor",
            fake: Any = None,
        ) -> Any:
            op = side.lib.library.custom_op("q::f", body, mutates_args=mutates_args, schema=schema)
            op.register_fake(fake or (lambda x: x.new_empty(x.shape)))
            return op

        def writes(x: Any) -> Any:
            x.detach().numpy()[...] = 7
            return x * 1

        x = side.leaf([1.0, 2.0], grad=False)
        y = side.leaf([1.0, 2.0])
        double = custom(lambda x: x * 2)
        found = [check(double, x), check(double, y)]
        found.append(check(custom(writes), x))
        found.append(check(custom(writes, {"x"}, "(Tensor(a!) x) -> Tensor"), x))
        found.append(check(custom(lambda x: x), x))
        found.append(check(custom(lambda x: x[:1], fake=lambda x: x.new_empty(1)), x))
        found.append(check(custom(lambda x: x * 2, fake=lambda x: x.new_empty(5)), x))
        found.append(
            check(custom(lambda x: x * 2, fake=lambda x: x.new_empty(2, dtype=side.lib.float32)), x)
        )
        return found

    both(program)


# --- misuse ---------------------------------------------------------------------------------------


def _misuse(side: Side) -> dict[str, Callable[[], Any]]:
    lib, x, leaf = side.lib, side.leaf([1.0], grad=False), side.leaf([1.0, 2.0])
    custom_op = lib.library.custom_op

    def make(
        body: Any = lambda x: x * 2,
        mutates_args: Any = (),
        schema: Any = "(Tensor x) -> Tensor",
        **kwargs: Any,
    ) -> Any:
        return custom_op("q::m", body, mutates_args=mutates_args, schema=schema, **kwargs)

    def inferred(annotations: dict[str, Any], mutates_args: Any = ()) -> Any:
        def f(x, y=None): ...

        f.__defaults__ = None
        f.__annotations__ = annotations
        return custom_op("q::i", f, mutates_args=mutates_args)

    def formula(returned: Callable[[Any], Any]) -> None:
        op = make()
        op.register_autograd(lambda ctx, g: returned(g))
        op(leaf).sum().backward()

    def leaves_list(returned: Callable[[Any], Any]) -> None:
        op = make(lambda xs: xs[0] * 2, schema="(Tensor[] xs) -> Tensor")
        op.register_autograd(lambda ctx, g: returned(g))
        op([leaf, leaf]).sum().backward()

    T = lib.Tensor
    return {
        "no mutates_args": lambda: custom_op("q::f"),
        "no namespace": lambda: custom_op(
            "f", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor"
        ),
        "two namespaces": lambda: custom_op(
            "a::b::c", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor"
        ),
        "no annotations": lambda: custom_op("q::f", lambda x: x, mutates_args=()),
        "no result": lambda: inferred({"x": T, "y": T}),
        "a dict": lambda: inferred({"x": T, "y": dict, "return": T}),
        "a tuple": lambda: inferred({"x": T, "y": Tuple[int, int], "return": T}),
        "a result that is text": lambda: inferred({"x": T, "y": T, "return": str}),
        "a result that may be none": lambda: inferred({"x": T, "y": T, "return": Optional[T]}),
        "mutates what is not there": lambda: inferred({"x": T, "y": T, "return": T}, {"z"}),
        "mutates a number": lambda: inferred({"x": T, "y": int, "return": T}, {"y"}),
        "mutates_args as a word": lambda: inferred({"x": T, "y": T, "return": T}, "x"),
        "a schema that writes more": lambda: make(schema="(Tensor(a!) x) -> Tensor"),
        "a tensor by name only": lambda: make(schema="(*, Tensor x) -> Tensor"),
        "no such device": lambda: make(device_types="nowhere"),
        "no device to choose by": lambda: make(schema="(int n) -> Tensor", device_types="cpu"),
        "an operand returned": lambda: make(lambda x: x)(x),
        "a view returned": lambda: make(lambda x: x[:])(x),
        "one result twice": lambda: make(
            lambda x: (y := x * 2, y), schema="(Tensor x) -> (Tensor, Tensor)"
        )(x),
        "no kernel": lambda: make(device_types="cuda")(x),
        "no shapes": lambda: make()(lib.empty(1, device="meta")),
        "no formula": lambda: make()(leaf).sum().backward(),
        "a formula for a writer": lambda: side.shift.register_autograd(lambda ctx, g: g),
        "too many gradients": lambda: formula(lambda g: (g, g)),
        "a gradient of other sizes": lambda: formula(lambda g: g.sum().expand(3)),
        "no list of gradients": lambda: leaves_list(lambda g: g),
        "a list too short": lambda: leaves_list(lambda g: [g]),
        "a registration for a number": lambda: lib.library.register_kernel(3, "cpu", lambda x: x),
        "opcheck of a function": lambda: lib.library.opcheck(len, ()),
        "opcheck by no test": lambda: lib.library.opcheck(make(), (x,), test_utils="test_nothing"),
        "one tolerance": lambda: lib.library.opcheck(make(), (x,), rtol=1.0),
    }


BUILTIN = (NotImplementedError, RuntimeError, ValueError, TypeError, AttributeError)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        call()
    except Exception as error:
        return next((kind for kind in BUILTIN if isinstance(error, kind)), type(error))
    return None


# gputensor raises NotImplementedError, a subclass of RuntimeError, as for every missing kernel.
MORE_EXACT = {"no shapes": (RuntimeError, NotImplementedError)}


@pytest.mark.parametrize("name", list(_misuse(Side(torch))))
def test_misuse_raises_the_same(name: str) -> None:
    theirs, ours = (outcome(_misuse(Side(lib))[name]) for lib in (torch, gt))
    assert theirs is not None and (theirs is ours or MORE_EXACT.get(name) == (theirs, ours)), (
        theirs,
        ours,
    )


# --- any arguments --------------------------------------------------------------------------------


class Shaped:
    """An operator with every kind of tensor argument; its backward records its arguments."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.said = lib, []
        numpy = lib.from_numpy

        def f(a: Any, b: Any, cs: Any, ds: Any, n: int) -> Any:
            total = a.detach().numpy() * n
            for x in (b, *cs, *ds):
                if x is not None:
                    total = total + x.detach().numpy()
            return numpy(total), [numpy(c.detach().numpy() * 2) for c in cs], n

        self.op = lib.library.custom_op(
            "q::shaped", f, mutates_args=(),
            schema="(Tensor a, Tensor? b, Tensor[] cs, Tensor?[] ds, int n) -> (Tensor, Tensor[], "
                   "int)",
        )  # fmt: skip

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.set_materialize_grads(self.materializes)
            ctx.n, ctx.has_b, ctx.known = (
                inputs[4],
                inputs[1] is not None,
                [d is not None for d in inputs[3]],
            )
            self.said.append((len(inputs), type(output), type(output[1])))

        def backward(ctx: Any, g: Any, gs: Any, m: Any) -> Any:
            self.said.append(
                (
                    ctx.needs_input_grad,
                    m,
                    None if g is None else g.tolist(),
                    [None if h is None else h.tolist() for h in gs],
                )
            )
            zero = lib.zeros(2, dtype=lib.float64)
            g = zero if g is None else g
            cs = [g + (zero if h is None else h * 2) for h in gs]
            return (
                g * ctx.n,
                g if ctx.has_b else None,
                cs,
                [g if known else None for known in ctx.known],
                None,
            )

        self.op.register_autograd(backward, setup_context=setup)

    def run(self, seed: int) -> Any:
        r = random.Random(seed)
        lib, self.materializes = self.lib, r.random() < 0.7
        self.said.clear()
        made: list[Any] = []

        def leaf() -> Any:
            made.append(
                lib.tensor(
                    [r.random(), r.random()], dtype=lib.float64, requires_grad=r.random() < 0.5
                )
            )
            return made[-1] if r.random() < 0.7 else made[-1] * 1.0

        a, b = leaf(), leaf() if r.random() < 0.6 else None
        cs = [leaf() for _ in range(r.randint(0, 3))]
        ds = [leaf() for _ in range(r.randint(0, 2))]  # for PyTorch this is not a list
        if r.random() < 0.2:
            b = a  # the same tensor twice
        n = r.randint(1, 3)  # PyTorch expects one gradient less if an argument equals its default
        first, rest, n = self.op(a, b, cs, ds, n=n)
        outputs = [first, *rest]
        flags = [x.requires_grad for x in outputs]
        used = [x for x in outputs if x.requires_grad and r.random() < 0.7]
        if used:
            total = sum((x * k).sum() for k, x in enumerate(used, 1))
            total.backward()
        return (
            flags,
            n,
            [x.tolist() for x in outputs],
            [None if x.grad is None else x.grad.tolist() for x in made],
            list(self.said),
        )


def test_any_arguments() -> None:
    theirs, ours = Shaped(torch), Shaped(gt)
    for seed in range(400):
        a, b = theirs.run(seed), ours.run(seed)
        assert _rounded(a) == _rounded(b), f"seed {seed}"


def _rounded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_rounded(v) for v in value])
    return round(value, 12) if isinstance(value, float) else value
