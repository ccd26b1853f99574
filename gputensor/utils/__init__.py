"""`gt.utils`: what programs need beside tensors, as `torch.utils` has it."""
