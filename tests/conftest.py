"""Choose the devices of a test run before gputensor is imported, and print them in the header.

The default is a real GPU if there is one, otherwise the emulator with two devices; GPUTENSOR_CUDA
overrides it. GPUTENSOR_REQUIRE_CUDA=1 demands a real GPU, GPUTENSOR_REQUIRE_EMULATOR=1 the
emulator: tests that would be skipped without it fail instead.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from .harness import ids, tier

HERE = Path(__file__).parent


def _choose() -> str:
    """Return the value for GPUTENSOR_CUDA. gputensor is not imported yet; CuPy is imported only if
    needed."""
    if os.environ.get("GPUTENSOR_REQUIRE_CUDA") == "1":
        return "auto"  # without a GPU, each test that needs a GPU fails with the reason
    if os.environ.get("GPUTENSOR_REQUIRE_EMULATOR") == "1" or not _has_gpu():
        return "emulator"
    return "auto"


def _has_gpu() -> bool:
    if find_spec("cupy") is None or not (
        shutil.which("nvidia-smi") or os.path.exists("/dev/nvidia0")
    ):
        return False
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount()) > 0
    except (
        Exception
    ):  # the import of an installed CuPy also fails without a driver or a cache folder
        return False


if not os.environ.get("GPUTENSOR_CUDA"):
    os.environ["GPUTENSOR_CUDA"] = _choose()
os.environ.setdefault("GPUTENSOR_EMULATOR_DEVICES", "2")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=tier.TIERS, default=os.environ.get("GPUTENSOR_TIER", tier.chosen),
        help="quick: each operator, dtype and layout once; full: everything crossed (make check)",
    )  # fmt: skip
    parser.addoption(
        "--times", metavar="FILE", help="write what each folder cost, for tests.budgets"
    )


def pytest_configure(config: pytest.Config) -> None:
    tier.chosen = config.getoption("--tier")
    if config.getoption("--times"):
        from .harness.times import Times

        config.pluginmanager.register(Times(config, config.getoption("--times")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Each process imports the files that it collects. So ignore files whose marks, on one line,
    exclude all their tests. If only oracle tests are selected, ignore all files without the
    mark."""
    asked = config.getoption("markexpr")
    if asked == "not oracle" and collection_path == HERE / "oracle":
        return True
    if not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    if asked == "oracle":
        return "mark.oracle" not in text or None
    excluded = {"oracle"} if asked == "not oracle" else set()
    excluded |= set() if tier.is_full() else {"full"}
    of_all = re.search(r"^pytestmark = .*$", text, re.M)
    marks = re.findall(r"mark\.(\w+)", of_all[0]) if of_all else []
    return bool(excluded & {*marks}) or None


def _is_on_gpu() -> bool:
    from gputensor import cuda

    return cuda.is_available() and not cuda.is_emulated()


def _without_device(error: Exception) -> None:
    """Skip the test if it asked for a CUDA device that this machine cannot even emulate."""
    from gputensor import cuda

    is_required = {os.environ.get(f"GPUTENSOR_REQUIRE_{x}") for x in ("CUDA", "EMULATOR")} & {"1"}
    is_about_it = any(x in str(error) for x in ("cuda: no device", "there is no CUDA device"))
    if is_about_it and not is_required and not cuda.is_available():
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    try:
        return (yield)
    except Exception as error:
        _without_device(error)
        raise


pytest_fixture_setup = pytest_pyfunc_call


def pytest_report_header() -> str:
    from gputensor import cuda

    if not cuda.is_available():
        from gputensor import runtime

        return f"gputensor: CPU only ({runtime.cuda().unavailable_reason()})"
    kind = "emulated CUDA" if cuda.is_emulated() else "CUDA"
    names = ", ".join(cuda.get_device_name(i) for i in range(cuda.device_count()))
    return f"gputensor: CPU and {cuda.device_count()} {kind} devices ({names})"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    found = [item.nodeid for item in items if ids.has_address(item.nodeid)]
    if found:
        raise pytest.UsageError(f"ids with an address differ in every process: {found[:3]}")
    if not tier.is_full():
        quick = [item for item in items if not item.get_closest_marker("full")]
        # Without the emulator's compiling there is time for all combinations, each on the GPU.
        chosen = {item.nodeid for item in quick} if _is_on_gpu() else tier.covering(quick)
        config.hook.pytest_deselected(items=[x for x in items if x.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect tests without garbage collections, which take a third of the time: nearly all that is
    made stays."""
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.enable()


def _import_share(config: pytest.Config) -> None:
    """Import a share of the test files before the others. Each worker has another share, so that
    in a new checkout pytest rewrites and compiles each file once and not once per worker."""
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or {*config.args} != {*config.getini("testpaths")}:
        return
    files = [
        path for path in sorted(HERE.rglob("test_*.py"))
        if not pytest_ignore_collect(path, config)
    ]  # fmt: skip
    count, number = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    for path in files[len(files) * number // count : len(files) * (number + 1) // count]:
        # The collection reports what is wrong with a file.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Freeze all present objects, so that garbage collections in tests examine only objects that
    the tests made."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Freeze the plans and modules that a file leaves too; otherwise each collection would examine
    them again."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        stop_where_a_device_is_lost(item.session)
    return report


def stop_where_a_device_is_lost(session) -> None:
    """Stop after a failure that destroys the GPU's context: every later test would fail without
    information."""
    from gputensor import runtime

    first_failure = getattr(runtime._chosen, "first_failure", None)
    if first_failure is not None and first_failure():
        session.shouldstop = f"a GPU is of no more use to this process: {first_failure()}"


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Seed the generators, so that the random numbers of a test do not depend on earlier tests."""
    import gputensor as gt

    gt.manual_seed(0)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt. A shell's `&`, nohup and some CI runners start Python with
    SIGINT ignored, and Python installs no handler for it then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
