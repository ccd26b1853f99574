"""`gputensor cache warm|list|clear`: compiled kernels on disk, before they are needed.

gputensor cache warm                       layout copies, for the device that is there
gputensor cache warm --arch sm_90 --all    every kernel, for a device that is not (needs NVRTC only)
gputensor cache list
gputensor cache clear
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from gputensor import runtime
from gputensor.core import errors
from gputensor.runtime import kernel_cache

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
    arguments = parser.parse_args(argv)
    return {"warm": _warm, "list": _list, "clear": _clear}[arguments.what](arguments)


def _warm(arguments: Any) -> int:
    from gputensor.kernels.cuda import prebuilt

    wanted = list(prebuilt.everything() if arguments.all else prebuilt.copies())
    before = {entry.path for entry in kernel_cache.entries()}
    progress, archs = Progress(), []
    for arch, build in _compilers(arguments.arch):
        archs.append(arch)
        for number, variant in enumerate(wanted):
            progress(f"{arch}: {number + 1} of {len(wanted)}: {variant[1]}")
            build(variant)
    progress.done()
    added = sum(entry.path not in before for entry in kernel_cache.entries())
    found = {
        "directory": kernel_cache.directory(),
        "archs": archs,
        "kernels": len(wanted),
        "added": added,
    }
    if arguments.json:
        print_json(found)
    else:
        print(
            f"{len(wanted)} kernels for {', '.join(archs)}; {added} files are new in {found['directory']}"
        )
    return FINE


def _compilers(archs: list[str] | None) -> Iterable[tuple[str, Any]]:
    """(architecture, function that builds a variant for it)."""
    from gputensor.kernels.cuda import prebuilt, variants

    if archs:
        from gputensor.runtime import nvrtc, nvrtc_users

        try:
            binding = nvrtc_users.binding()
        except errors.GpuTensorError as error:
            raise Refusal(str(error), DEVICE_ABSENT) from None
        known = {f"sm_{n}" for n in binding.getSupportedArchs()}
        for arch in archs:
            if arch not in known:
                raise Refusal(f"'--arch' must be one of {', '.join(sorted(known))} (got {arch})")
            yield (
                arch,
                lambda v, arch=arch: nvrtc.compile_cubin(binding, prebuilt.text_of(v), v[2], arch),
            )
        return
    cuda = runtime.cuda()
    if not cuda.is_available():
        reason = (
            f"no device to compile for ({cuda.unavailable_reason()}); name one with --arch sm_90"
        )
        raise Refusal(reason, DEVICE_ABSENT)
    for arch in sorted({cuda.arch(index) for index in range(cuda.device_count())}):

        def build(variant: Any, arch: str = arch) -> None:
            group = variants.group_of(variant[0], variant[2]) if cuda.is_emulated else (variant[2],)
            cuda.compile(prebuilt.text_of(variant), group, arch)

        yield arch, build


def _list(arguments: Any) -> int:
    found = list(kernel_cache.entries())
    if arguments.json:
        entries = [{name: getattr(e, name) for name in e.__slots__} for e in found]
        print_json({"directory": kernel_cache.directory(), "entries": entries})
        return FINE
    total = sum(e.nbytes for e in found) >> 10
    print(f"{kernel_cache.directory()}: {len(found)} entries, {total} KiB")
    if found:
        groups = _groups(found)
        rows = [
            (name, len(group), sum(e.nbytes for e in group) >> 10, _age(min(e.age_s for e in group)))
            for name, group in groups
        ]
        print(table(("kernels", "entries", "KiB", "newest"), rows, right=(1, 2, 3)))
        if len(groups) < len(found):
            print("\n--json lists every entry with its options")
    return FINE


def _groups(found: list[kernel_cache.Entry]) -> list[tuple[str, list[kernel_cache.Entry]]]:
    """Entries by the first two words of their labels, which are the file and what it is for."""
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
