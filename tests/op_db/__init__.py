"""Results of operators for PyTorch's samples: recorded once, replayed without PyTorch."""
