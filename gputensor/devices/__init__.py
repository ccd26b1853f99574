"""Further devices: registering one, its module, the fallback to the CPU."""
