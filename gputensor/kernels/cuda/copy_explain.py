"""Explanation of a layout copy: its normalised layout, its kernel, and the reasons for the choice.

All facts are read from the plan that a launch uses; this module makes no decisions.
"""

from __future__ import annotations

from typing import Any

from ...runtime.device_limits import H200, Limits
from . import copy_launch, copy_pack_plan as packing, copy_plan, copy_score as score
from .copy_walk import Traffic, Walk, normalise, pieces

_NAMES = {"elem": "ELEM", "row": "ROW", "tile": "TILE", "skinny": "SKINNY", "pack": "PACK"}


class Explanation:
    """The result of `explain`; str() draws a diagram. walk, plan: the walk and the plan of the
    first launch; all launches of a large copy are similar. gpu: the GPU for which the copy is
    planned."""

    __slots__ = ("layout", "walk", "plan", "launch", "launches", "traffic")

    def __init__(self, layout: Any, dst_low: int = 0, src_low: int = 0, gpu: Limits = H200) -> None:
        self.layout: Any = layout
        self.walk: Walk | None = None
        self.plan: Any = None
        self.launches: int = 0
        bound = copy_launch.bind("copy", "copy", layout)
        if type(bound) is copy_launch.Copy:
            made = bound.planned(gpu, dst_low, src_low)
            parts = made.parts if type(made) is copy_launch.Several else [made]
            self.launch, self.launches = parts[0], len(parts)
            self.walk, self.plan = self.launch.walk, self.launch.plan
        elif not layout.shape or 0 not in layout.shape:
            self.launch, self.launches = bound, 1
            self.walk = next(pieces(normalise(layout, dst_low, src_low), 1 << 62))
            self.plan = copy_plan.elem(self.walk)
        if self.walk is not None:
            self.traffic: Traffic = Traffic(self.walk, score.SECTOR_BYTES)

    @property
    def kernel(self) -> str:
        """The kernel's name: ELEM, ROW, TILE, SKINNY or PACK; "none" if there are no elements."""
        return "none" if self.plan is None else _NAMES[self.plan.kernel]

    def to_dict(self) -> dict[str, Any]:
        if self.walk is None:
            return {"kernel": "none", "why": self.why(), "launches": 0}
        walk, launch, traffic = self.walk, self.launch, self.traffic
        return {
            "kernel": self.kernel, "why": self.why(), "how": self.how(),
            "launch": self.launched(), "memory": self.moved(),
            "walk": {
                "sizes": list(walk.sizes), "dst_stride_bytes": list(walk.dst),
                "src_stride_bytes": list(walk.src), "dst_item_bytes": walk.dst_bytes,
                "src_item_bytes": walk.src_bytes,
            },
            "marks": [self._marks().get(d, "") for d in range(len(walk.sizes))],
            "box": self._box(),
            "entry": launch.entry, "defines": dict(launch.defines), "grid": launch.grid[0],
            "block": launch.block[0], "shared_bytes": launch.shared_bytes,
            "launches": self.launches,
            "bytes": {"read": traffic.read, "written": traffic.written},
            "sector_bytes": {
                "read": traffic.read_sectors, "written": traffic.written_sectors,
                "filled": traffic.filled_sectors,
            },
            "at_most": round(self._at_most(), 3),
        }  # fmt: skip

    # --- words ------------------------------------------------------------------------------------

    def why(self) -> str:
        """Return the condition that selected the kernel."""
        walk, plan = self.walk, self.plan
        if walk is None:
            return "there are no elements"
        nbytes = walk.numel * walk.item
        if type(self.launch) is not copy_launch.CopyLaunch:
            least = score.SMALL_BYTES
            return f"{nbytes} B are less than {least}: a launch costs more than the layout"
        y = copy_plan.direction(walk)
        if plan.kernel == "row":
            if len(walk.sizes) == 1 and plan.step == 1:
                return "both sides are one run"
            run = walk.sizes[0] * walk.src_bytes
            kind = {1: f"share runs of {run} B", 0: "repeat one element along dst's rows"}
            return f"dst and src {kind.get(plan.step, 'share rows that src has backwards')}"
        if plan.kernel == "elem":
            return "src is read along no dimension" if y is None else "one side is never dense"
        to, of = walk.sizes[0] * walk.dst_bytes, walk.sizes[y or 0] * walk.src_bytes
        if plan.kernel == "skinny":
            return f"{walk.sizes[plan.c]} channels beside {walk.sizes[plan.pixel]} pixels"
        if plan.kernel == "pack":
            most = f"several give {plan.min_run_bytes} B"
            return f"one dimension alone gives runs of {min(to, of)} B, {most}"
        return f"dst runs {to} B along one dimension, src {of} B along another"

    def how(self) -> str:
        """Return the size of the tile and the widths of the accesses as text."""
        walk, plan = self.walk, self.plan
        if walk is None:
            return ""
        if plan.kernel == "row":
            shifted = "16 B, funnelled out of two aligned words of src"
            access = shifted if plan.is_shifted else f"{plan.vector * walk.item} B"
            words = [access, "a block in one row" if plan.is_long else "units of all rows"]
            words += ["each loaded once and stored several times"] * (plan.repeat is not None)
            return ", ".join(words)
        if plan.kernel == "tile":
            load = plan.load * walk.src_bytes
            loads = f"loads of {load} B" if load else "loads of two aligned words, shifted together"
            store = plan.store * walk.dst_bytes
            stores = f"stores of {store} B" if store else "stores of 8 B, shifted together"
            return (
                f"tiles of {plan.rows} along dst x {plan.columns} along src, {loads}, "
                f"{stores}, {plan.fill:.0%} of them filled"
            )
        if plan.kernel == "skinny":
            return f"loads of {plan.load} B, stores of {plan.store} B, transposed in registers"
        if plan.kernel == "pack":
            box = " x ".join(str(t) for t in plan.chunks if t > 1)
            return (
                f"boxes of {box}, loads of {plan.load * walk.src_bytes} B, stores of "
                f"{plan.store * walk.dst_bytes} B, {packing.tiles(walk, plan)} boxes"
            )
        return "four bytes of dst a thread" if plan.packed else "element by element in dst's order"

    def launched(self) -> str:
        """Return the launched entry, the number of blocks and the number of threads as text."""
        launch, again = self.launch, f", {self.launches} launches" if self.launches > 1 else ""
        blocks = f"{launch.grid[0]} block{'s' * (launch.grid[0] != 1)}"
        return f"{launch.entry}: {blocks} of {launch.block[0]} threads{again}"

    def moved(self) -> str:
        """Return the number of requested bytes, and the number of bytes in the touched sectors, as
        text."""
        traffic = self.traffic
        return (
            f"{traffic.read} B read and {traffic.written} B written, {traffic.sector_bytes} B in "
            f"sectors: at most {self._at_most():.0%} of memcpy's speed"
        )

    def _at_most(self) -> float:
        return min(1.0, self.traffic.useful_bytes / self.traffic.sector_bytes)

    # --- drawing ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self.walk is None:
            return f"nothing to copy: {self.why()}"
        walk = self.walk
        lines = [f"{self.kernel}: {self.why()}"]
        lines += [f"  {words}" for words in (self.how(), self.launched(), self.moved())] + [""]
        marks = self._marks()
        rows = [("", "size", "dst step B", "src step B", "")]
        for d, (n, to, of) in enumerate(zip(walk.sizes, walk.dst, walk.src)):
            rows.append((f"d{d}", str(n), str(to), str(of), marks.get(d, "")))
        widths = [max(len(r[i]) for r in rows) for i in range(5)]
        lines += ["  ".join(c.rjust(w) for c, w in zip(r[:4], widths)) + "  " + r[4] for r in rows]
        lines += ["", "dst  " + self._side(walk.dst), "src  " + self._side(walk.src)]
        return "\n".join(line.rstrip() for line in lines)

    def _box(self) -> list[int]:
        """Return the number of elements, in each dimension, that a tile, a row or a thread moves at
        once."""
        plan, walk = self.plan, self.walk
        assert walk is not None
        parts = {"row": {0: walk.sizes[0] if walk.sizes else 1}}
        if plan.kernel == "tile":
            parts["tile"] = {plan.x: plan.rows, plan.y: plan.columns}
        elif plan.kernel == "skinny":
            parts["skinny"] = {plan.c: walk.sizes[plan.c], plan.pixel: 16 // walk.item}
        elif plan.kernel == "pack":
            parts["pack"] = dict(enumerate(plan.chunks))
        of = parts.get(plan.kernel, {})
        return [min(n, of.get(d, 1)) for d, n in enumerate(walk.sizes)]

    def _marks(self) -> dict[int, str]:
        """Return the role of each dimension in the plan."""
        plan, walk = self.plan, self.walk
        assert walk is not None
        if plan.kernel == "row":
            marks = {0: "the row"}
            if plan.repeat is not None:
                marks[plan.repeat] = "stored again and again"
            return marks
        if plan.kernel == "tile":
            return {plan.x: f"rows of the tile, {plan.rows}", plan.y: f"columns, {plan.columns}"}
        if plan.kernel == "skinny":
            return {plan.c: "the channels", plan.pixel: "the pixels"}
        if plan.kernel == "pack":
            parts: dict[int, str] = {}
            for d, t in enumerate(plan.chunks):
                if t > 1:
                    runs = (("dst", plan.run_out), ("src", plan.run_in))
                    sides = [s for s, run in runs if d in run]
                    parts[d] = f"{t} in the box, in the run of {' and '.join(sides)}"
            return parts
        return {0: "the walk"} if walk.sizes else {}

    def _side(self, strides: list[int]) -> str:
        """Return the dimensions of one side as nested brackets, in the order of the side's
        memory."""
        walk = self.walk
        assert walk is not None
        drawn = "."
        for _, d in sorted((abs(s), d) for d, s in enumerate(strides) if s):
            way = "<" if strides[d] < 0 else ""
            drawn = f"[{way}d{d} {drawn} x{walk.sizes[d]}]"
        repeated = [d for d, s in enumerate(strides) if not s]
        still = " ".join(f"d{d} x{walk.sizes[d]} (repeated)" for d in repeated)
        return " ".join(filter(None, (drawn, still)))
