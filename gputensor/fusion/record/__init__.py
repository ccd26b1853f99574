"""What operators of a block of `gt.fuse` leave instead of running: see recording.py."""
