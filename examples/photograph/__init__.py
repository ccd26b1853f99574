"""A photograph becomes a model's input and comes back: `make demo`, `gputensor demo`, or
`python examples/photograph [--help]`."""
