"""`python -m bench.operators OPTIONS`: run the benchmark in this process and print its data as
JSON.

capabilities.py starts this command with the options of `run` as JSON. Users call `python -m bench
run`.
"""

from __future__ import annotations

import json
import sys

from . import run

if __name__ == "__main__":
    json.dump(run(**json.loads(sys.argv[1])), sys.stdout)
