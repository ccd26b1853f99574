"""Modules for data-parallel training: the names of `gt.nn.parallel`, and SyncBatchNorm."""
