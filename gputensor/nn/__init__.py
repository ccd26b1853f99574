"""`gt.nn`: modules, parameters and functions of neural networks, under the names of `torch.nn`.

A module's `state_dict()` has PyTorch's names and shapes, so that weights can be exchanged in both
directions.
"""

from typing import TYPE_CHECKING

from ..core import lazy
from . import functional as functional, init as init, utils as utils
from .modules.attention import *  # noqa: F403
from .modules.container import *  # noqa: F403
from .modules.conv import *  # noqa: F403
from .modules.functional import *  # noqa: F403
from .modules.lazy import *  # noqa: F403
from .modules.linear import *  # noqa: F403
from .modules.loss import *  # noqa: F403
from .modules.norm import *  # noqa: F403
from .modules.pooling import *  # noqa: F403
from .modules.recurrent import *  # noqa: F403
from .modules.resampling import *  # noqa: F403
from .modules.module import Module as Module
from .parameter import (
    Buffer as Buffer, Parameter as Parameter, UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)  # fmt: skip

if TYPE_CHECKING:
    from . import parallel as parallel
    from ..parallel.data_parallel import DataParallel as DataParallel
    from ..parallel.sync_norm import SyncBatchNorm as SyncBatchNorm

if not TYPE_CHECKING:
    __all__ = [name for name, value in list(globals().items()) if isinstance(value, type)]
    __all__ += ["functional", "init", "utils"]
    __getattr__, __dir__ = lazy.attributes(globals())
