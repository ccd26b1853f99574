"""Devices registered by other packages: registration, public module, CPU fallback."""
