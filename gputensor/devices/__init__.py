"""Devices registered from outside the package: registration, public module, CPU fallback."""
