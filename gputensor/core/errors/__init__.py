"""Every exception class and every message of the project.

A message is built here and only on the unhappy path; it has one line, names the operator and the
argument, states the rule and says what was given. Where PyTorch's users match on PyTorch's wording,
that wording is matched here, once. It does not decide *when* something is wrong.
"""

from .base import *  # noqa: F403
from .shapes import *  # noqa: F403
from .dispatch import *  # noqa: F403
from .runtime import *  # noqa: F403
from .exchange import *  # noqa: F403
from .autograd import *  # noqa: F403
from .amp import *  # noqa: F403
from .custom_op import *  # noqa: F403
