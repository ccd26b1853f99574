"""`GradScaler`: multiplies the loss by a factor, so that float16 gradients do not underflow.

An optimizer is any object with `step()` and `param_groups`, a list of dicts that hold tensors under
"params". The host waits for the device in `step` and `get_scale` only. Source:
torch/amp/grad_scaler.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from .. import runtime
from .._generated import functions as F
from ..autograd.modes import no_grad
from ..core import errors
from ..core.arguments import flag
from ..core.device import device
from ..core.dtype import float16, float32, int32
from ..tensor.tensor import Tensor


class OptState(Enum):
    """The last call for an optimizer since `update`: `unscale_`, `step`, or none."""

    READY, UNSCALED, STEPPED = range(3)


class _Optimizer:
    """State of an optimizer since the last `update`. found: maps a device to 1.0 if a gradient on
    the device is inf or NaN, else to 0.0."""

    __slots__ = ("stage", "found")

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found: dict[device, Tensor] = {}


class GradScaler:
    """Scales losses, unscales gradients, skips steps with inf or NaN, and adapts the scale.

        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    Args:
        device: the device type. 'cuda' without a CUDA device disables the scaler, with a warning.
        init_scale: the first scale.
        growth_factor: multiplies the scale after `growth_interval` steps without inf or NaN.
        backoff_factor: multiplies the scale after a step with inf or NaN.
        enabled: False makes all methods do nothing or return their argument.
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device = device
        self._enabled = flag("GradScaler", "enabled", enabled)
        if not isinstance(device, str):
            raise errors.wrong_type("GradScaler", "device", "be a device type", device)
        for arg, value in (("growth_factor", growth_factor), ("backoff_factor", backoff_factor)):
            if not isinstance(value, (int, float)):
                raise errors.wrong_type("GradScaler", arg, "be a number", value)
        if self._enabled and device == "cuda" and not runtime.cuda().is_available():
            why = errors.scaler_unavailable(runtime.cuda().unavailable_reason())
            warnings.warn(why, errors.AutocastWarning, stacklevel=2)
            self._enabled = False
        if growth_factor <= 1.0:
            raise errors.must("GradScaler", "growth_factor", "be greater than 1", growth_factor)
        if not 0.0 < backoff_factor < 1.0:
            raise errors.must("GradScaler", "backoff_factor", "be between 0 and 1", backoff_factor)
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        # Scalar tensors on the device of the first output: the scale (float32), and the number of
        # steps since its last change (int32).
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._optimizers: dict[int, _Optimizer] = {}

    # --- one iteration --------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Multiply outputs by the scale. outputs: a tensor, or tensors in nested tuples, lists and
        iterables."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            scale, _ = self._made("scale")
            return outputs * scale.to(outputs.device, non_blocking=True)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(x) for x in outputs])
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        rule = "be a Tensor or an iterable of Tensors"
        raise errors.wrong_value("scale", "outputs", rule, outputs)

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, in place, and check for inf and NaN.

        Call it before `step` if the true gradients are needed, for example to clip them; otherwise
        `step` calls it. It may be called once per `update`. Raises: ArgumentValueError for float16
        gradients, in which small numbers would be lost; nothing is changed then.
        """
        if not self._enabled:
            return
        scale, _ = self._made("unscale_")
        state = self._optimizers.setdefault(id(optimizer), _Optimizer())
        if state.stage is OptState.UNSCALED:
            raise errors.unscaled_twice()
        if state.stage is OptState.STEPPED:
            raise errors.unscale_after_step()
        with no_grad():
            state.found = _unscale(list(_gradients(optimizer)), 1.0 / scale.double())
        state.stage = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `optimizer.step(*args, **kwargs)` unless a gradient is inf or NaN. The host waits
        for this check."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            rule = "be left out while gradients are scaled"
            raise errors.must("step", "closure", rule, errors.Got("one"))
        self._made("step")
        state = self._optimizers.setdefault(id(optimizer), _Optimizer())
        if state.stage is OptState.STEPPED:
            raise errors.stepped_twice()
        if state.stage is OptState.READY:
            self.unscale_(optimizer)
        if not state.found:
            raise errors.nothing_checked("step")
        result = None
        if not any([found.item() for found in state.found.values()]):
            result = optimizer.step(*args, **kwargs)
        state.stage = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale after the steps of all optimizers, or set it to `new_scale`."""
        if not self._enabled:
            return
        scale, tracker = self._made("update")
        with no_grad():
            if new_scale is None:
                flags = [f for o in self._optimizers.values() for f in o.found.values()]
                found = [f.to(scale.device, non_blocking=True) for f in flags]
                if not found:
                    raise errors.nothing_checked("update")
                for other in found[1:]:
                    found[0] = F.maximum(found[0], other)
                self._adapt(scale, tracker, found[0] != 0)
            elif isinstance(new_scale, Tensor):
                if (
                    new_scale.numel() != 1
                    or new_scale.requires_grad
                    or new_scale.device.type != self._device
                ):
                    rule = (
                        f"be a float, or one element on {self._device} that does not require grad"
                    )
                    raise errors.must("update", "new_scale", rule, new_scale)
                scale.copy_(new_scale.reshape(()))
            else:
                scale.fill_(float(new_scale))
        self._optimizers = {}

    def _adapt(self, scale: Tensor, tracker: Tensor, is_bad: Tensor) -> None:
        """Write the next scale and step count to `scale` and `tracker`. Source:
        aten/src/ATen/native/cuda/AmpKernels.cu, amp_update_scale_cuda_kernel."""
        steps = tracker + 1
        is_due = steps == self._growth_interval
        grown = (scale.double() * self._growth_factor).float()
        grown = F.where(grown - grown == 0, grown, scale)  # The scale never grows to infinity.
        shrunk = (scale.double() * self._backoff_factor).float()
        scale.copy_(F.where(is_bad, shrunk, F.where(is_due, grown, scale)))
        tracker.copy_(F.where(is_bad, 0, F.where(is_due, 0, steps)))

    def _make_scale(self, place: device) -> None:
        self._scale = F.full((), self._init_scale, dtype=float32, device=place)
        self._growth_tracker = F.full((), self._init_growth_tracker, dtype=int32, device=place)

    def _made(self, what: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise errors.not_scaled(what)
        return self._scale, self._growth_tracker

    # --- state ----------------------------------------------------------------------------------

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        """Return the scale as a float, or 1.0 if disabled. The host waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint as Python numbers, or {} if disabled. Call it after
        `update`."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned. Do nothing if disabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise errors.empty_scaler_state()
        scale, tracker = state_dict["scale"], state_dict["_growth_tracker"]
        growth, backoff = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_factor, self._backoff_factor = growth, backoff
        self._init_scale, self._init_growth_tracker = scale, tracker
        # The next call of `scale` makes both tensors again, on the device of the first output.
        self._scale = self._growth_tracker = None

    def __getstate__(self) -> dict[str, Any]:
        if self._optimizers:
            raise errors.scaler_in_use()
        fresh = {
            "_init_scale": self.get_scale(),
            "_init_growth_tracker": self._get_growth_tracker(),
        }
        return {**self.__dict__, **fresh, "_scale": None, "_growth_tracker": None}


def _gradients(optimizer: Any) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                yield parameter.grad


def _unscale(gradients: list[Tensor], inverse: Tensor) -> dict[device, Tensor]:
    """Multiply gradients in place. Return a dict that maps a device to 1.0 if a gradient on the
    device is inf or NaN, else to 0.0."""
    if any([g.dtype is float16 for g in gradients]):
        raise errors.float16_gradients()
    inverse = inverse.float()
    inverses: dict[device, Tensor] = {}
    found: dict[device, Tensor] = {}
    for g in gradients:
        place = g.device
        if place not in found:
            inverses[place] = inverse.to(place, non_blocking=True)
            found[place] = F.full((), 0.0, dtype=float32, device=place)
        if g.numel():
            # If an element is inf or NaN, the largest magnitude is inf or NaN. Then peak - peak is
            # NaN instead of 0.
            peak = g.abs().amax()
            found[place] = F.maximum(found[place], (peak - peak != 0).float())
        g.mul_(inverses[place])
    return found
