"""A pytest plugin for tests of CUDA code, which run with or without a GPU.

    pytest --gputensor=auto|emulator|required|off     where kernels run; the header says so
           --gputensor-sanitize[=memory,init,race]    check each access of memory on the emulator
           --gputensor-limit=60                       seconds that a kernel may run there
           --gputensor-order=reversed|random          another order of blocks and threads

A test requests the fixture `gputensor_cuda`, or has the mark
`@pytest.mark.gputensor_cuda(devices=2, real=False)`. It is skipped, with the reason, if there is no
such device. `auto` uses a GPU if there is one, otherwise the emulator. `required` ends the run if
there is no GPU. On the emulator each write of a kernel is checked and its time is limited, so a
faulty kernel fails its test and does not end the run; the options, or `GPUTENSOR_EMULATOR_SANITIZE`
and `GPUTENSOR_EMULATOR_LIMIT`, change these checks. Without the option (or `gputensor = …` in the
ini file) and without the fixture, the plugin does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

MODES = ("auto", "emulator", "required", "off")
MARKER = "gputensor_cuda(devices=1, real=False): needs CUDA devices, real or emulated"

# seconds; a launch that takes longer probably hangs
LIMIT_S = 60

_chosen = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _keep_modules_as_they_are(pluginmanager)
    group = parser.getgroup("gputensor", "CUDA by gputensor, on a GPU or emulated on the CPU")
    group.addoption(
        "--gputensor", choices=MODES, default=None,
        help="where CUDA kernels run: a GPU or else the emulator (auto), the emulator, a GPU or "
        "failure (required), nowhere (off)",
    )  # fmt: skip
    group.addoption(
        "--gputensor-sanitize", nargs="?", const="all", default=None, metavar="CHECKS",
        help="check memory, init, race and overflow (all where no list is given) on the emulator; "
        "writes is the default, 0 checks nothing",
    )  # fmt: skip
    group.addoption(
        "--gputensor-limit", default=None, metavar="SECONDS",
        help=f"how long a kernel may run on the emulator: {LIMIT_S} by default, 0 for ever",
    )  # fmt: skip
    group.addoption(
        "--gputensor-order", choices=("forward", "reversed", "random"), default=None,
        help="order of blocks, and of threads between barriers, on the emulator",
    )  # fmt: skip
    parser.addini("gputensor", "default of --gputensor", default="")


def _keep_modules_as_they_are(pluginmanager: pytest.PytestPluginManager) -> None:
    """Exclude gputensor from pytest's rewriting of assertions. Pytest rewrites all modules of a
    package that has a plugin. This would take seconds in the first run, and in each run without a
    cache."""
    marked: set[str] = getattr(pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked.discard("gputensor")


def pytest_load_initial_conftests(args: list[str]) -> None:
    """Give `--gputensor-sanitize` its default value unless the next argument names checks.
    Otherwise pytest would take a path such as `tests/` as the value."""
    for at, arg in enumerate(args):
        if arg == "--gputensor-sanitize" and not _names_checks(*args[at + 1 : at + 2]):
            args[at] = "--gputensor-sanitize=all"


def _names_checks(value: str = "") -> bool:
    from gputensor.core.errors import GpuTensorError
    from gputensor.runtime.emulator.settings import parse_checks

    try:
        parse_checks(value)
    except GpuTensorError:
        return False
    return bool(value)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    mode = _mode_given(config)
    for option, setting in (
        ("gputensor_sanitize", "SANITIZE"),
        ("gputensor_order", "SCHEDULE"),
        ("gputensor_limit", "LIMIT"),
    ):
        value = config.getoption(option)
        if value:
            os.environ[f"GPUTENSOR_EMULATOR_{setting}"] = value
            mode = mode or "auto"
    if mode:
        _choose(config, mode)


def _mode_given(config: pytest.Config) -> str | None:
    mode = config.getoption("gputensor") or config.getini("gputensor") or None
    if mode is not None and mode not in MODES:
        raise pytest.UsageError(
            f"gputensor: the ini value must be one of {', '.join(MODES)} (got {mode})"
        )
    return mode


def _choose(config: pytest.Config, mode: str) -> str:
    """Choose the runtime for this process, once. Return the line for pytest's header."""
    known = config.stash.get(_chosen, None)
    if known is not None:
        return known
    from gputensor import GpuTensorError, runtime

    if mode != "auto":
        os.environ["GPUTENSOR_CUDA"] = mode
    try:
        cuda = runtime.choose_again() if mode != "auto" else runtime.cuda()
        if mode == "auto" and not cuda.is_available() and not os.environ.get("GPUTENSOR_CUDA"):
            os.environ["GPUTENSOR_CUDA"] = "emulator"
            cuda = runtime.choose_again()
        if cuda.is_available() and cuda.is_emulated:
            _protect_the_run()
        line = config.stash[_chosen] = _described(cuda)
    except GpuTensorError as error:
        raise pytest.UsageError(f"gputensor: {error}") from None
    if mode == "emulator" and not cuda.is_available():
        raise pytest.UsageError(f"gputensor: --gputensor=emulator, but {cuda.unavailable_reason()}")
    return line


def _protect_the_run() -> None:
    """Enable checks by default, so that a faulty kernel cannot prevent the other tests from
    running."""
    from gputensor.runtime.emulator import settings

    os.environ.setdefault("GPUTENSOR_EMULATOR_SANITIZE", settings.WRITES)
    os.environ.setdefault("GPUTENSOR_EMULATOR_LIMIT", str(LIMIT_S))
    settings.forget()


def _described(cuda: Any) -> str:
    if not cuda.is_available():
        return f"gputensor: cuda OFF ({cuda.unavailable_reason()})"
    count = cuda.device_count()
    devices = f"{count} device{'s' if count != 1 else ''}"
    if not cuda.is_emulated:
        names = ", ".join(sorted({cuda.device_name(i) for i in range(count)}))
        return f"gputensor: cuda REAL ({devices}: {names})"
    from gputensor.runtime.emulator import settings, toolchain

    now = settings.current()
    parts = [devices, toolchain.compiler_name()]
    if now.checks:
        parts.append(f"checks {', '.join(sorted(now.checks))}")
    if now.limit_s is not None:
        parts.append(f"limit {now.limit_s:g} s")
    if now.schedule != "forward":
        parts.append(f"order {now.schedule}")
    return f"gputensor: cuda EMULATED ({', '.join(parts)}; no GPU code ran)"


def pytest_report_header(config: pytest.Config) -> str | None:
    return config.stash.get(_chosen, None)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the device if the first test with the fixture chose it. In this case pytest's header
    was printed before the choice."""
    line = config.stash.get(_chosen, None)
    if line is not None and _mode_given(config) is None:
        terminalreporter.write_line(line)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("gputensor_cuda"):
        _require(item.config, **mark.kwargs)


def _require(config: pytest.Config, devices: int = 1, real: bool = False) -> None:
    """Skip the test unless the requested devices exist."""
    line = _choose(config, _mode_given(config) or "auto")
    from gputensor import cuda

    if not cuda.is_available():
        pytest.skip(line)
    if real and cuda.is_emulated():
        pytest.skip(f"needs a real GPU; {line}")
    if cuda.device_count() < devices:
        pytest.skip(f"needs {devices} devices; {line}")


@pytest.fixture
def gputensor_cuda(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return `gputensor.cuda` with at least one device. If a kernel has a fault, the test fails
    when it ends."""
    _require(request.config)
    from gputensor import cuda

    yield cuda
    for index in range(cuda.device_count()):
        cuda.synchronize(index)
