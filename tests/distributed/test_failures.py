"""A rank that fails, ends, crashes, sleeps or makes another call ends the others with an error."""

from __future__ import annotations

import pytest

from ..harness import tier
from . import launch

# kind, True with the debug mode, the message of one of the ranks
FAILURES = [
    ("raises", False, "ValueError: bad data\ngputensor.distributed: rank 1 ended with ValueErro"),
    ("is killed", False, "KILLED BY SIGNAL: 9|Killed (signal 9)"),
    ("shape", False, "all ranks must make the same call (all_reduce f32[3] cpu sum) (got rank 2: "
     "all_reduce f32[4] cpu sum)"),
    *tier.pick([], [
        ("is read late", False, "ValueError: bad data\ngputensor.distributed: rank 1 ended with V"),
        ("sleeps", True, "waited 3 s for rank"),
        ("exits", False, "waits for rank 1, which ended before that"),
        ("exits", True, "waits for rank 1, which ended before that"),
        ("sleeps", False, "waited 3 s for the others; GPUTENSOR_DISTRIBUTED_DEBUG=detail names"),
        ("shape", True, "all ranks must make the same call (all_reduce f32[3] cpu sum) "
         "(got rank 2: all_reduce f32[4] cpu sum)"),
        ("dtype", False, "(got rank 2: all_reduce f64[3] cpu sum)"),
        ("dtype", True, "(got rank 2: all_reduce f64[3] cpu sum)"),
        ("calls another", False, "(got rank 1: broadcast f32[3] cpu src=0)"),
        ("calls another", True, "(got rank 1: broadcast f32[3] cpu src=0)"),
        ("nccl: shape", False, "(got rank 2: all_reduce f32[4] cuda sum)"),
        ("splits", False, "all ranks must make the same call (all_to_all_single f32[*] cpu gives"),
        ("nccl: sleeps", False, "waited 3 s for the others; GPUTENSOR_DISTRIBUTED_DEBUG=detail na"),
        ("nccl: exits", False, "waits for rank 1, which ended before that"),
        ("splits", True, "all ranks must make the same call (all_to_all_single f32[*] cpu |"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "detail", "says"), FAILURES, ids=str)
def test_one_rank_ends_all(kind: str, detail: bool, says: str) -> None:
    debug = "detail" if detail else "off"
    env = {"GPUTENSOR_DISTRIBUTED_DEBUG": debug}
    if kind.startswith("nccl"):  # lazy: the host continues, as with a GPU
        env |= launch.emulated("lazy")
    done = launch.run(3, "-m", "tests.distributed.failing", kind, limit_s=60, **env)
    assert done.returncode != 0
    assert any(part in done.stdout for part in says.split("|", kind == "is killed")), done.stdout
    assert "has [" not in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("debug", ["off", "detail"])
def test_without_a_failure_all_go_on(debug: str) -> None:
    done = launch.run(
        3, "-m", "tests.distributed.failing", "caught", limit_s=60,
        GPUTENSOR_DISTRIBUTED_DEBUG=debug,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("has [3.0, 3.0, 3.0]") == 3, done.stdout
