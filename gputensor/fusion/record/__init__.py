"""Recording of operators in a block of `gt.fuse`: see recording.py."""
