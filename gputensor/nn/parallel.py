"""`gt.nn.parallel`: data-parallel training.

Each process trains a copy of the module on its own batches.
"""

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from ..parallel.data_parallel import DataParallel as DataParallel
    from ..parallel.distributed import DistributedDataParallel as DistributedDataParallel

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
