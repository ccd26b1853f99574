"""Modules for data-parallel training: the classes of `gt.nn.parallel`, and SyncBatchNorm."""
