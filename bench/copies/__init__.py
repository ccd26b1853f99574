"""Benchmarks that move memory: layout copies, packing of images, plain copies, bandwidth."""
