"""`python -m bench.operators OPTIONS`: run in this process and print the data as JSON.

capabilities.py starts it with the options of `run` as JSON; users call `python -m bench run`.
"""

from __future__ import annotations

import json
import sys

from . import run

if __name__ == "__main__":
    json.dump(run(**json.loads(sys.argv[1])), sys.stdout)
