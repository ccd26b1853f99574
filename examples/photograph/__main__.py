import sys

from gputensor.__main__ import main

sys.exit(main(["demo", *sys.argv[1:]]))
