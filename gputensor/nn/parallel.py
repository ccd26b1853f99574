"""`gt.nn.parallel`: a module whose copies are trained by several processes, each on its batches."""

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from ..parallel.data_parallel import DataParallel as DataParallel
    from ..parallel.distributed import DistributedDataParallel as DistributedDataParallel

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
