"""What stands between a call and its kernels: modes, subclasses, lazy views."""
