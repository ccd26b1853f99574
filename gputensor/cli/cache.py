"""`gputensor cache warm|list|clear`: compile kernels before they are needed, and manage the cache.

gputensor cache warm                      layout copies, for the device of this machine
gputensor cache warm --arch sm_90 --all   all kernels, for another device (needs only NVRTC)
gputensor cache warm --arch sm_90 --to DIR
                                          into a folder, to be copied to another machine and
                                          used there with GPUTENSOR_CARRIED_CUBINS=DIR
gputensor cache list
gputensor cache clear

GPUTENSOR_CACHE_DIR replaces ~/.cache/gputensor. Only you or root may have write access to it.
A kernel is removed GPUTENSOR_CACHE_MAX_DAYS (90) after its last use. The oldest kernels are
removed if the cache exceeds GPUTENSOR_CACHE_MAX_MIB (1024).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from typing import Any

from gputensor import runtime
from gputensor.core import errors
from gputensor.runtime.compilation import kernel_cache, nvrtc, nvrtc_users

from .output import DEVICE_ABSENT, FINE, Arguments, Progress, Refusal, print_json, table


def main(argv: list[str]) -> int:
    parser = Arguments("cache", "Compiled kernels on disk.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (__doc__ or "").split("\n\n", 1)[1]
    parser.add_argument("what", choices=("warm", "list", "clear"))
    parser.add_argument(
        "--arch", action="append", metavar="sm_90", help="warm: for these, without a device"
    )
    parser.add_argument(
        "--all", action="store_true", help="warm: every kernel, not layout copies alone"
    )
    parser.add_argument(
        "--to", metavar="DIR", help="warm: into this folder, to be carried to another machine"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="warm: processes (default: all CPUs)")
    arguments = parser.parse_args(argv)
    return {"warm": _warm, "list": _list, "clear": _clear}[arguments.what](arguments)


def _warm(arguments: Any) -> int:
    from gputensor.kernels.cuda import prebuilt

    wanted = list(prebuilt.everything() if arguments.all else prebuilt.copies())
    folder = arguments.to or kernel_cache.directory()
    before = _files(folder)
    archs = _archs(arguments)
    if archs is None:
        archs = _warm_emulator(wanted)
    else:
        for arch in archs:
            _compile(wanted, arch, arguments)
    found = {
        "directory": folder, "archs": archs, "kernels": len(wanted),
        "added": len(_files(folder) - before),
    }  # fmt: skip
    if arguments.json:
        print_json(found)
    else:
        added = f"{found['added']} files are new in {folder}"
        print(f"{len(wanted)} kernels for {', '.join(archs)}; {added}")
    return FINE


def _files(folder: str) -> set[str]:
    return set(os.listdir(folder)) if os.path.isdir(folder) else set()


def _archs(arguments: Any) -> list[str] | None:
    """Return the architectures for which to compile; None for the emulator."""
    if arguments.arch:
        try:
            binding = nvrtc_users.binding()
        except errors.GpuTensorError as error:
            raise Refusal(str(error), DEVICE_ABSENT) from None
        known = {f"sm_{n}" for n in binding.getSupportedArchs()}
        for arch in arguments.arch:
            if arch not in known:
                raise Refusal(f"'--arch' must be one of {', '.join(sorted(known))} (got {arch})")
        return list(arguments.arch)
    cuda = runtime.cuda()
    if not cuda.is_available():
        why = cuda.unavailable_reason()
        reason = f"no device to compile for ({why}); name one with --arch sm_90"
        raise Refusal(reason, DEVICE_ABSENT)
    if not cuda.is_emulated:
        return sorted({cuda.arch(index) for index in range(cuda.device_count())})
    if arguments.to:
        raise Refusal("'--to' must come with --arch, because it takes no kernels of the emulator")
    return None


def _compile(wanted: list[Any], arch: str, arguments: Any) -> None:
    """Compile kernels in several processes, because NVRTC compiles one text at a time per
    process."""
    progress = Progress()
    jobs = min(arguments.jobs or len(os.sched_getaffinity(0)), -(-len(wanted) // _WORTH_A_PROCESS))
    tasks = [(variant, arch, arguments.to) for variant in wanted]
    with ExitStack() as stack:
        if jobs > 1:
            # spawn, because a forked process could not use the device
            pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))
            stack.callback(pool.shutdown, cancel_futures=True)
            done = as_completed(pool.submit(_build, t) for t in tasks)
            built: Iterator[str] = (task.result() for task in done)
        else:
            built = map(_build, tasks)
        for number, entry in enumerate(built, 1):
            progress(f"{arch}: {number} of {len(wanted)}: {entry}")
    progress.done()


# Starting a process takes as long as compiling this number of kernels.
_WORTH_A_PROCESS = 8


def _build(task: tuple[Any, str, str | None]) -> str:
    """Compile one variant into the cache or into a folder. Return the name of its entry."""
    from gputensor.kernels.cuda import prebuilt

    variant, arch, folder = task
    binding, text = nvrtc_users.binding(), prebuilt.text_of(variant)
    if folder:
        nvrtc.carry_cubin(binding, text, variant[2], arch, folder)
    else:
        nvrtc.compile_cubin(binding, text, variant[2], arch)
    return str(variant[1])


def _warm_emulator(wanted: list[Any]) -> list[str]:
    from gputensor.kernels.cuda import prebuilt, variants

    cuda, progress = runtime.cuda(), Progress()
    arch = cuda.arch(0)
    for number, variant in enumerate(wanted, 1):
        progress(f"{arch}: {number} of {len(wanted)}: {variant[1]}")
        cuda.compile(prebuilt.text_of(variant), variants.group_of(variant[0], variant[2]), arch)
    progress.done()
    return [arch]


def _list(arguments: Any) -> int:
    found = list(kernel_cache.entries())
    if arguments.json:
        entries = [entry._asdict() for entry in found]
        print_json({"directory": kernel_cache.directory(), "entries": entries})
        return FINE
    total = sum(e.nbytes for e in found) >> 10
    days, mib = kernel_cache.bounds()
    print(f"{kernel_cache.directory()}: {len(found)} entries, {total} KiB")
    print(f"kept for {days:g} days after their last use, at most {mib:g} MiB")
    if found:
        groups = _groups(found)
        rows = [
            (
                name, len(group), sum(e.nbytes for e in group) >> 10,
                _age(min(e.age_s for e in group)),
            )
            for name, group in groups
        ]  # fmt: skip
        print(table(("kernels", "entries", "KiB", "last used"), rows, right=(1, 2, 3)))
        if len(groups) < len(found):
            print("\n--json lists every entry with its options")
    return FINE


def _groups(found: list[kernel_cache.Entry]) -> list[tuple[str, list[kernel_cache.Entry]]]:
    """Group entries by the first two words of their labels: the file and the architecture."""
    groups: dict[str, list[kernel_cache.Entry]] = {}
    for entry in found:
        groups.setdefault(" ".join(entry.label.split()[:2]), []).append(entry)
    return sorted(groups.items())


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _clear(arguments: Any) -> int:
    count = kernel_cache.clear()
    if arguments.json:
        print_json({"directory": kernel_cache.directory(), "removed": count})
    else:
        print(f"removed {count} files from {kernel_cache.directory()}")
    return FINE
