"""The modules of neural networks under torch.nn's names. Each file has the modules of one kind."""
