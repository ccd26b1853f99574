"""Fusion: elementwise operators recorded as chains, and executors that run a chain as one loop."""
