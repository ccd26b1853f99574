"""A program written for PyTorch. `gputensor run-as-torch examples/least_squares.py` runs it."""

import torch

x = torch.randn(100, 3)
y = x @ torch.tensor([1.0, -2.0, 3.0])
layer = torch.nn.Linear(3, 1, bias=False)
optimizer = torch.optim.LBFGS(layer.parameters(), line_search_fn="strong_wolfe")


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    error = (layer(x).squeeze(1) - y).square().mean()
    error.backward()
    return error


optimizer.step(loss)
print(layer.weight.detach().mul(100).round().div(100))
