"""`gt.nn`: modules, parameters and functions of networks, as `torch.nn` has them.

A module's `state_dict()` has PyTorch's names and shapes, so that weights go either way.
"""

from typing import TYPE_CHECKING

from ..core import lazy
from . import functional, init, utils
from .modules.attention import (
    MultiheadAttention, Transformer, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer,
)  # fmt: skip
from .modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .modules.conv import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
)  # fmt: skip
from .modules.functional import *  # noqa: F403
from .modules.functional import __all__ as _of_functions
from .modules.linear import Bilinear, Embedding, EmbeddingBag, Identity, Linear, PReLU
from .modules.loss import *  # noqa: F403
from .modules.loss import __all__ as _losses
from .modules.module import Module
from .modules.norm import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d,
    InstanceNorm3d, LayerNorm, RMSNorm,
)  # fmt: skip
from .modules.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .modules.pooling import *  # noqa: F403
from .modules.pooling import __all__ as _of_pooling
from .modules.resampling import *  # noqa: F403
from .modules.resampling import __all__ as _of_resampling
from .parameter import Buffer, Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Buffer", "Conv1d", "Conv2d",
    "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
    "EmbeddingBag", "GRU", "GRUCell", "GroupNorm", "Identity", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LSTM", "LSTMCell", "LayerNorm", "Linear", "Module", "ModuleDict",
    "ModuleList", "MultiheadAttention", "PReLU", "Parameter", "ParameterDict", "ParameterList",
    "RMSNorm", "RNN", "RNNCell", "Sequential", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "functional",
    "init", "utils", *_losses, *_of_functions, *_of_pooling, *_of_resampling,
]  # fmt: skip


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
