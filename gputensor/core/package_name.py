"""The package's name in texts of dtypes, sizes and types of tensors.

`as_torch.install` makes it "torch": PyTorch's programs compare such texts.
"""

name = "gputensor"
