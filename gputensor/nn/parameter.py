"""Parameter and Buffer: tensors that a Module registers under the attribute names to which they are
assigned."""

from __future__ import annotations

from typing import Any, cast

from ..core import errors
from ..core.arguments import flag
from ..core.dtype import FLOATING
from ..tensor.tensor import Tensor


class Parameter(Tensor):
    """A tensor over the memory of `data` that a Module registers as a parameter.

    Results of operators on it are plain tensors. Raises: ArgumentTypeError if `data` is not a
    Tensor.
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        requires_grad = flag("Parameter", "requires_grad", requires_grad)
        made: Parameter = Tensor._make_subclass(cls, _memory("Parameter", data))
        if requires_grad and made._geometry.dtype.category < FLOATING:
            rule = "be floating or complex, as only those require grad"
            raise errors.wrong_dtype("Parameter", "data", rule, made)
        return made.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        if type(self) is Parameter:
            shown = repr(self.detach().requires_grad_(self.requires_grad))
        else:
            shown = f"Parameter({super().__repr__()})"
        return f"Parameter containing:\n{shown}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = _parameter, (type(self), self.detach(), self.requires_grad)
        return (*made, vars(self)) if vars(self) else made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copied: Parameter = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied


def _parameter(cls: type[Parameter], data: Tensor, requires_grad: bool) -> Parameter:
    return cls(data, requires_grad)


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer. persistent: True if `state_dict()` contains
    it."""

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        made: Buffer = Tensor._make_subclass(cls, _memory("Buffer", data))
        made.persistent = persistent
        return made


def _memory(name: str, data: Any) -> Tensor:
    from .._generated.functions import empty

    if data is None:
        return empty(0)
    if not isinstance(data, Tensor):
        raise errors.not_a_tensor(name, "data", "a Tensor", data)
    return data.detach()


class _Uninitialized:
    """A parameter or buffer of a lazy module that has no sizes yet."""

    cls_to_become: Any

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        made = (self.requires_grad, self.device, self.dtype)
        return type(self), made, vars(self) or None

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        kind, args, state = self.__reduce_ex__(4)
        memo[id(self)] = copied = kind(*args)
        vars(copied).update(state or {})
        return copied

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Change this object to an ordinary parameter or buffer of these sizes, with undefined
        values."""
        from .._generated.functions import empty

        made: Any = {"device": device or self.device, "dtype": dtype or self.dtype}
        setattr(self, "data", empty(shape, **made))  # noqa: B010 - whose type is the tensor's
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError("an uninitialized parameter has no shape; call forward() first")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A Parameter without sizes. The first input of its lazy module determines them."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        made = Parameter.__new__(cls, _nothing(device, dtype), requires_grad)
        return cast("UninitializedParameter", made)


class UninitializedBuffer(_Uninitialized, Buffer):
    """A Buffer without sizes. The first input of its lazy module determines them."""

    cls_to_become = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:  # fmt: skip
        made = Buffer.__new__(cls, _nothing(device, dtype), persistent=persistent)
        return cast("UninitializedBuffer", made)


def _nothing(device: Any, dtype: Any) -> Tensor:
    from .._generated.functions import empty

    return empty(0, device=device, dtype=dtype)


def is_lazy(param: Any) -> bool:
    """True for a parameter or buffer that has no sizes yet."""
    return isinstance(param, _Uninitialized)
