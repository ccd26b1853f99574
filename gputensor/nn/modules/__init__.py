"""Modules: what a network is made of, a file a kind, under torch.nn's names."""
