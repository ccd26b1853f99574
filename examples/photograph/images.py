"""Reading a photograph into a batch (N, H, W, C) of uint8, and writing an image."""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gputensor.cli.output import Refusal
from gputensor.runtime import files

_DEFAULT = "mpl-data/sample_data/grace_hopper.jpg"
# Bytes of memory for each byte of the batch. They suffice for the intermediate results of gputensor
# and of two other libraries.
_BYTES_PER_BATCH_BYTE = 100


def default() -> Path:
    """Return the path of a public-domain photograph in matplotlib's package, without an import of
    matplotlib."""
    spec = find_spec("matplotlib")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, _DEFAULT)
        if path.is_file():
            return path
    raise Refusal(
        "the default photograph comes with matplotlib, which is not installed; name an image "
        "or run: pip install 'gputensor[demo]'"
    )


def read(path: Path) -> np.ndarray:
    """Return an image as (H, W, C) uint8 with three channels."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise Refusal("images are read with Pillow; run: pip install 'gputensor[demo]'") from None
    if not path.exists():
        raise Refusal(f"'{path}' must be an image file (got no such file)")
    if not path.is_file():
        raise Refusal(f"'{path}' must be an image file (got a folder or device)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return np.array(ImageOps.exif_transpose(image).convert("RGB"))
    except PermissionError:
        raise Refusal(f"'{path}' must be readable (got permission denied)") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refusal(
            f"'{path}' must have at most {Image.MAX_IMAGE_PIXELS} pixels (got more)"
        ) from None
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's errors for damaged files
        raise Refusal(
            f"'{path}' must be an image that Pillow reads (got {_first_line(error)})"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def make_batch(image: np.ndarray, count: int | None, default: int) -> np.ndarray:
    """Return a batch of `count` images (N, H, W, C). Image i is rolled by 16 * i pixels along the
    rows, so that the images differ.

    If count is None, return the default number, or as many as fit into memory.
    """
    one, free = image.nbytes * _BYTES_PER_BATCH_BYTE, _available_memory()
    if count is None:
        count = max(1, min(default, free // one))
    elif one * count > free:
        raise Refusal(
            f"'--batch' must fit into memory (got {count}, which needs some "
            f"{one * count / 2**30:.1f} GiB; {free / 2**30:.1f} GiB are available)"
        )
    return np.stack([np.roll(image, 16 * i, axis=1) for i in range(count)])


def _available_memory() -> int:
    """Return the bytes available without swapping, or the free bytes if the kernel does not report
    them."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(found.split()[1]) * 1024
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_writable(path: Path) -> None:
    """Raise an error if the result cannot be written. This is called before the long
    computation."""
    from PIL import Image

    if path.suffix.lower() not in Image.registered_extensions():
        raise Refusal(
            f"'--output' must end in an image format's suffix such as .png (got '{path}')"
        )
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise Refusal(f"'--output' must be a file in an existing folder (got '{path}')")
    beside = [] if path.exists() and not path.is_file() else [path.resolve().parent]
    if not all(os.access(p, os.W_OK) for p in (*beside, *([path] if path.exists() else []))):
        raise Refusal(f"'--output' must be writable (got '{path}')")


def write(path: Path, image: np.ndarray) -> None:
    from PIL import Image

    try:
        form = Image.registered_extensions()[path.suffix.lower()]
        with files.whole(path) as file:
            Image.fromarray(np.ascontiguousarray(image)).save(file, format=form)
    except OSError as error:
        raise Refusal(f"'--output' must be writable (got {_first_line(error)})") from None
