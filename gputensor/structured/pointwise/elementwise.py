"""Kernels of elementwise operators with any number of inputs and scalars, derived from the
operator's schema.

Tensor arguments are inputs, and may also be Python numbers. The other arguments are params, which
take no part in type promotion. A family assigns the three factories that `forms` makes from its
rule to its own names. `computed` of kernels/cpu/pointwise.py makes the CPU loops. The CUDA functors
declare their parameters (kernels/cuda/include/pointwise/computed.cuh). See native/ternary.py for an
example.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any

from ...kernels._generated.loops import LOOPS
from ...core import errors, number_range
from ...core.arguments import are_equal, number_in
from ...core.device import CPU
from ...core.dtype import dtype
from ...core.dtype_rules import RULES
from ...dispatch.operator import Operator
from ...iterator.config import BINARY, BINARY_FLOAT, UNARY, UNARY_FLOAT
from ...tensor.tensor import Tensor
from .. import pointwise
from ..shortcuts import computed as short, cuda_calls as short_calls
from . import CpuEntry, DeviceEntry, Kernel, Rule

# prepare(operator, common dtype, {name: value}) returns the params in the form that loops take.
Prepare = Callable[[Operator, dtype, dict[str, Any]], tuple[Any, ...]]
Factory = Callable[[Operator, str], Kernel]


def rule(operator: Operator, family: str, loop: str) -> Rule:
    """Return the Rule of a loop, according to `dtypes:` of its YAML row. Inputs take part in type
    promotion if the word in `dtypes:` begins with `promoted`."""
    word = LOOPS[family][loop]
    promotes, to_float = word.startswith("promoted"), RULES[word].to_float
    names = tuple(operator.schema.arguments[place].name for place in _places(operator)[0])
    config = BINARY if promotes else UNARY
    if to_float:
        config = BINARY_FLOAT if promotes else UNARY_FLOAT
    config = config.replace(arg_names=names)
    return pointwise.rule(family, loop, config, config)


def checked(operator: Operator, common: dtype, params: dict[str, Any]) -> tuple[Any, ...]:
    """Return the params as Python numbers that fit the dtype of the computation."""
    return tuple([_checked(operator, common, name, x) for name, x in params.items()])


def _checked(operator: Operator, common: dtype, name: str, value: Any) -> Any:
    op = operator.short_name
    if type(value) in pointwise.NUMBERS:
        found = value
    else:
        found = number_in(value)
        if found is None:
            raise errors.wrong_type(op, name, "be a number", value)
    number_range.check(op, name, found, common)
    return found


def functional(operator: Operator, rule: Rule, prepare: Prepare = checked) -> Kernel:
    taken = _Taker(operator, prepare)
    inputs, params = taken.inputs, taken.params
    made = compute(operator, rule, taken.prepared)

    def kernel(key_set: int, *args: Any) -> Tensor:
        found: Tensor = made(inputs(args), params(args), kernel, args)
        return found

    return kernel


def compute(operator: Operator, rule: Rule, prepared: Any = lambda entry, params: ()) -> Any:
    """Make a function made(inputs, params) that returns a new tensor. prepared(entry, params)
    converts params to the form that loops take. If the caller also passes its kernel and all
    arguments, the function stores a short cut."""

    def made(
        inputs: tuple[Any, ...], params: tuple[Any, ...] = (), kernel: Kernel | None = None,
        args: tuple[Any, ...] = (),
    ) -> Tensor:  # fmt: skip
        table = operator.table
        entry = pointwise.find_entry(table, rule, rule.loop, None, inputs)
        beside = _beside(operator, entry, inputs, params, prepared)
        if kernel is not None and _is_due(entry):
            if entry.plan.device is CPU:
                short.learn(table, kernel, args, short.of_entry(entry, inputs, beside))
            else:
                geometry, launch = entry.geometry, entry.launch
                short_calls.learn(table, kernel, args, geometry, launch, inputs, beside)
        if entry.numpy_allocates:
            found: Tensor = entry.made(inputs, beside)
            return found
        new: Tensor = entry.fresh(inputs, beside)
        return new

    return made


def _is_due(entry: Any) -> bool:
    """Return True if the last call with this entry had the same params, and the entry has no short
    cut yet."""
    if type(entry) is not CpuEntry and type(entry) is not DeviceEntry:
        return False
    if entry.seen is not entry.last_beside:
        entry.seen, entry.is_fresh = entry.last_beside, True
        return False
    is_fresh: bool = entry.is_fresh
    entry.is_fresh = False
    return is_fresh


def inplace(operator: Operator, rule: Rule, prepare: Prepare = checked) -> Kernel:
    taken = _Taker(operator, prepare)
    inputs, params = taken.inputs, taken.params
    write = compute_into(operator, rule, taken.prepared)
    at = next(n for n, a in enumerate(operator.schema.arguments) if a.is_write)

    def kernel(key_set: int, *args: Any) -> Tensor:
        learner = None if at else kernel  # short cuts exist only for writes to the first argument
        found: Tensor = write(args[at], inputs(args), params(args), learner, args)
        return found

    return kernel


def out(operator: Operator, rule: Rule, prepare: Prepare = checked) -> Kernel:
    taken = _Taker(operator, prepare)
    inputs, params = taken.inputs, taken.params
    write = compute_into(operator, rule, taken.prepared)
    return lambda key_set, *args: write(args[-1], inputs(args), params(args))


def forms(
    rule: Callable[[Operator, str], Rule], prepare: Prepare = checked
) -> tuple[Factory, Factory, Factory]:
    """Make a family's factories `functional, inplace, out`. rule: a function of the family that
    returns the Rule for (operator, loop)."""

    def of(form: Callable[[Operator, Rule, Prepare], Kernel]) -> Factory:
        def factory(operator: Operator, loop: str) -> Kernel:
            return form(operator, rule(operator, loop), prepare)

        factory.__module__ = rule.__module__  # The module of a factory gives the operator's family.
        return factory

    return of(functional), of(inplace), of(out)


def compute_into(operator: Operator, rule: Rule, prepared: Any = lambda entry, params: ()) -> Any:
    """Make a function write(out, inputs, params) that writes the result to `out` and returns `out`.
    prepared: as in `compute`."""
    write = pointwise.write(operator, rule)

    def checked_write(
        out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...] = (),
        kernel: Kernel | None = None, args: tuple[Any, ...] = (),
    ) -> Tensor:  # fmt: skip
        table = operator.table
        entry = pointwise.find_entry(table, rule, rule.loop, out, inputs)
        beside = _beside(operator, entry, inputs, params, prepared)
        found = write(out, inputs, beside)
        if kernel is not None and _is_due(entry):
            if entry.plan.device is CPU:
                short.learn(table, kernel, args, short.of_entry_inplace(entry, inputs, beside))
            else:
                short_calls.learn_inplace(table, kernel, args, entry.launch, inputs, beside)
        return found

    return checked_write


_KEPT = pointwise.NUMBERS | {type(None), str}


def _beside(
    operator: Operator, entry: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], prepared: Any
) -> tuple[Any, ...]:
    """Return the params in the form that loops take. Raise an error if a number among the inputs
    does not fit the common dtype. If the params and these numbers equal those of the last call,
    return the result that is stored in `entry`."""
    if not params and not entry.has_numbers:
        return ()
    last: tuple[Any, ...]
    beside: tuple[Any, ...]
    last, beside = entry.last_beside
    given = params
    if entry.has_numbers:
        given = (*params, *[x for x in inputs if type(x) in pointwise.NUMBERS])
    if len(last) == len(given) and (all(map(is_, last, given)) or are_equal(last, given)):
        return beside
    beside = prepared(entry, params)
    for name, x in zip(entry.plan.config.arg_names, inputs):
        if type(x) in pointwise.NUMBERS:  # The number must fit the promoted dtype.
            number_range.check(operator.short_name, name, x, entry.plan.common_dtype)
    if all([type(x) in _KEPT for x in given]):
        entry.last_beside = (given, beside)
    return beside


class _Taker:
    """Functions that select the inputs and the params from a call's arguments."""

    __slots__ = ("operator", "prepare", "inputs", "params", "names")

    def __init__(self, operator: Operator, prepare: Prepare) -> None:
        self.operator, self.prepare = operator, prepare
        places, named = _places(operator)
        self.inputs, self.params = _picker(places), _picker(tuple([place for place, _ in named]))
        self.names = tuple([name for _, name in named])

    def prepared(self, entry: Any, params: tuple[Any, ...]) -> tuple[Any, ...]:
        given = dict(zip(self.names, params))
        return self.prepare(self.operator, entry.plan.common_dtype, given) if given else ()


def _picker(places: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return a function that selects the arguments at these positions."""
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda args: (args[places[0]],)) if places else lambda args: ()


def _places(operator: Operator) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Return the positions of the inputs, and the position and name of each param. `out` is neither
    an input nor a param."""
    listed = [x for x in enumerate(operator.schema.arguments) if x[1].name != "out"]
    inputs = tuple([place for place, a in listed if a.type.has_tensor])
    return inputs, tuple([(place, a.name) for place, a in listed if not a.type.has_tensor])
