"""The table of public programs, and the packages that each group of them needs."""

from __future__ import annotations

from . import (
    architecture_rows,
    framework_rows,
    function_rows,
    layer_rows,
    media_rows,
    method_rows,
    science_rows,
    transformers_rows,
    vision_rows,
)

# Rows of a group run in one process for each side.
GROUPS = {
    "transformers": transformers_rows,
    "architectures": architecture_rows,
    "vision": vision_rows,
    "layers": layer_rows,
    "functions": function_rows,
    "frameworks": framework_rows,
    "science": science_rows,
    "media": media_rows,
    "methods": method_rows,
}
ROWS = [row for group in GROUPS.values() for row in group.ROWS]


def requirements(group: str) -> list[str]:
    """Return `name==version` of each package that a group needs."""
    rows = GROUPS[group]
    return sorted({*(row.package for row in rows.ROWS), *rows.NEEDS})
