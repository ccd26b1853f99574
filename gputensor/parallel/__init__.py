"""Modules that several processes train together: what `gt.nn.parallel` names, and SyncBatchNorm."""
