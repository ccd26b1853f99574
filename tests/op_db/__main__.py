"""Replay the frozen cases without PyTorch: `python -m tests.op_db [--only NAME ...]`.

`python -m tests.oracle.op_db` replays all cases of every dtype.
"""

from __future__ import annotations

import sys
import warnings

from bench.measurement.timing import progress

from . import frozen, report

if __name__ == "__main__":
    arguments = report.options("python -m tests.op_db").parse_args()
    warnings.simplefilter("ignore")
    for kind in ["gradients"] if arguments.gradients else frozen.KINDS:
        report.run(frozen.cases(kind), arguments, f"frozen_{kind}", "", progress)
    sys.exit(0)
