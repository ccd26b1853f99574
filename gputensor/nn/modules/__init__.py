"""Modules of networks under torch.nn's names, one file for each kind."""
