"""`gt.nn.utils`: functions for parameters, gradients, sequences and modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gradients import *  # noqa: F403
from .gradients import __all__ as _gradients
from ...core import lazy

if TYPE_CHECKING:
    from . import (
        fusion as fusion, parametrizations as parametrizations, parametrize as parametrize,
        prune as prune, rnn as rnn, stateless as stateless,
    )  # fmt: skip
    from .fusion import (
        fuse_conv_bn_eval as fuse_conv_bn_eval, fuse_conv_bn_weights as fuse_conv_bn_weights,
        fuse_linear_bn_eval as fuse_linear_bn_eval,
        fuse_linear_bn_weights as fuse_linear_bn_weights,
    )  # fmt: skip
    from .hooked_norms import (
        remove_spectral_norm as remove_spectral_norm, remove_weight_norm as remove_weight_norm,
        spectral_norm as spectral_norm, weight_norm as weight_norm,
    )  # fmt: skip
    from .making import (
        convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
        skip_init as skip_init,
    )

__all__ = [*_gradients]
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
