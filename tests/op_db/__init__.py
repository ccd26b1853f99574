"""What operators give for PyTorch's own samples: recorded once, replayed without PyTorch."""
