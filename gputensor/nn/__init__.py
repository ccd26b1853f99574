"""`gt.nn`: the functions of `torch.nn.functional` that training needs, no modules."""

from . import functional

__all__ = ["functional"]
