"""Devices from outside the package: registration, public module, fallback to the CPU."""
