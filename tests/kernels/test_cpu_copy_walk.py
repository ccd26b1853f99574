"""Layout copies: every walk writes what np.copyto writes and nothing else; plans are pure."""

from __future__ import annotations

import itertools
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputensor.core.dtype import ALL, bfloat16
from gputensor.kernels.cpu import copy, copy_compiled, copy_plan, copy_walk
from gputensor.kernels.cpu.copy_plan import GATHER, LANES, ROWS, TILES
from gputensor.runtime import cpu

WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


@pytest.fixture(autouse=True)
def two_threads():
    before, is_compiled = cpu.get_num_threads(), copy_compiled._is_on
    cpu.set_num_threads(2)
    copy_compiled._is_on = False
    yield
    cpu.set_num_threads(before)
    copy_compiled._is_on = is_compiled


def filled(shape, dtype):
    """Every byte counts, so that a wrong or missing one shows."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return (np.arange(nbytes) * 2654435761 >> 7).astype(np.uint8).view(dtype).reshape(shape)


def raw(array):
    return np.ascontiguousarray(array).view(f"V{array.itemsize}")


def plan_of(dst, src):
    return copy_plan.plan(
        copy_plan.normalise(dst.itemsize, dst.shape, dst.strides, src.strides, 64)
    )


def check(dst_memory, into, src):
    """Copy `src` into the view `into` of `dst_memory`, and look at what lies around it too."""
    dst_memory.view(np.uint8)[...] = 0xA5
    expected = dst_memory.copy()
    view = np.ndarray(
        into.shape, into.dtype, expected,
        into.__array_interface__["data"][0] - dst_memory.__array_interface__["data"][0],
        into.strides,
    )  # fmt: skip
    np.copyto(view, src)
    copy_walk.copy(into, src)
    assert (raw(dst_memory) == raw(expected)).all()


KINDS = [
    (ROWS, (1 << 18,), lambda x: x),
    (ROWS, (64, 16, 128, 8), lambda x: x.transpose(1, 0, 2, 3)),
    (ROWS, (4096, 256), lambda x: x[:, ::2]),
    (ROWS, (1, 1 << 16), lambda x: np.broadcast_to(x, (16, 1 << 16))),
    (ROWS, (1 << 16, 1), lambda x: np.broadcast_to(x, (1 << 16, 16))),
    (ROWS, (50_000, 12), lambda x: x.T),
    (LANES, (4, 3, 300, 221), lambda x: x.transpose(0, 2, 3, 1)),
    (ROWS, (4, 300, 221, 3), lambda x: x.transpose(0, 3, 1, 2)),
    (ROWS, (4, 300, 7, 7), lambda x: x.transpose(0, 2, 3, 1)),
    (LANES, (90_001, 3), lambda x: x.T),
    (LANES, (2, 800, 421, 3), lambda x: x.transpose(0, 3, 1, 2)),
    (LANES, (100_003, 7), lambda x: x.T),
    (ROWS, (701, 643), lambda x: x.T),
    (TILES, (40, 9001), lambda x: x.T),
    (TILES, (512, 512), lambda x: x.T),
    (ROWS, (5, 64, 37, 41), lambda x: x.transpose(0, 2, 3, 1)),
    (TILES, (5, 64, 32, 40), lambda x: x.transpose(0, 2, 3, 1)),
    (TILES, (21, 33, 27, 30), lambda x: x.transpose(3, 2, 1, 0)),
    (ROWS, (701, 1000), lambda x: x[3:, 5:900].T),
    (TILES, (701, 1024), lambda x: x[3:, 5:900].T),
    (GATHER, (2,) * 19, lambda x: x.T),
    (GATHER, (3, 5, 2, 3, 5, 2, 3, 5, 2, 3, 4), lambda x: x.T),
]


@pytest.mark.parametrize(("kind", "shape", "view"), KINDS)
@pytest.mark.parametrize("itemsize", WORDS)
def test_each_kind_with_each_element_size(kind, shape, view, itemsize):
    src = view(filled(shape, WORDS[itemsize]))
    dst = np.empty(src.shape, src.dtype)
    if itemsize == 4:
        assert plan_of(dst, src).kind == kind
    check(dst, dst, src)


@pytest.mark.parametrize(
    ("itemsize", "pitch", "kind"),
    [
        (2, 2050, TILES), (4, 2052, ROWS), (4, 2048, TILES), (4, 40_004, TILES), (8, 4104, ROWS),
        (8, 4096, TILES), (16, 4096, ROWS), (16, 32_768, TILES),
    ],
)  # fmt: skip
def test_words_and_wider_are_turned_without_a_scratch_where_their_lines_stay(itemsize, pitch, kind):
    rows = 8192
    walk = copy_plan.Walk(itemsize, [rows, 256], [itemsize, rows * itemsize], [pitch, itemsize])
    assert copy_plan.plan(walk).kind == kind


def test_a_box_has_more_rows_only_where_no_other_dimension_is_left():
    attention = np.empty((4, 2048, 128), np.float16)
    plan = plan_of(np.empty((4, 128, 2048), np.float16), attention.transpose(0, 2, 1))
    assert plan.kind == TILES and plan.box == [512, 128, 4]
    alone = plan_of(np.empty((128, 2048), np.float16), attention[0].T)
    assert alone.kind == TILES and alone.box == [2048, 128]


@pytest.mark.parametrize(("shape", "view"), [case[1:] for case in KINDS])
def test_each_kind_into_a_part_of_a_larger_array(shape, view):
    src = view(filled(shape, np.uint32))
    memory = np.empty([n + 2 for n in src.shape] if src.ndim < 8 else src.shape, np.uint32)
    into = memory[tuple([slice(1, n + 1) for n in src.shape])] if src.ndim < 8 else memory
    check(memory, into, src)
    if src.ndim > 1:
        turned = np.empty(src.shape[::-1], np.uint32)
        check(turned, turned.T, src)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_pair_of_layouts(data):
    ndim = data.draw(st.integers(1, 6))
    sizes = data.draw(
        st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 31]), min_size=ndim, max_size=ndim)
    )
    while np.prod(sizes) > 200_000:
        sizes[int(np.argmax(sizes))] = 2
    dtype = WORDS[data.draw(st.sampled_from(list(WORDS)))]

    def layout():
        order = data.draw(st.permutations(range(ndim)))
        pads = data.draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=ndim, max_size=ndim))
        memory = filled([sizes[d] + pads[d] for d in order], dtype).copy()
        view = memory[tuple([slice(pads[d], None) for d in order])]
        return memory, view.transpose(np.argsort(order))

    memory, into = layout()
    src = layout()[1]
    if data.draw(st.booleans()):
        broadcast = data.draw(st.integers(0, ndim - 1))
        src = np.broadcast_to(src[(slice(None),) * broadcast + (slice(0, 1),)], into.shape)
    check(memory, into, src)


@pytest.mark.parametrize("of", ALL, ids=lambda d: d.short)
def test_copy_and_contiguous_of_every_dtype(of):
    src = (
        filled((600, 701), WORDS[of.itemsize]).view(of.np)
        if of.itemsize > 1
        else ((filled((1500, 1201), np.uint8) & 1).view(of.np))
    )
    for view in (src, src.T, src[::2, 1::3]):
        new = copy.contiguous(view)
        assert new.flags.c_contiguous and new.dtype == view.dtype
        assert (raw(new) == raw(view)).all()
        dst = np.empty(view.shape[::-1], view.dtype).T
        copy.copy(dst, view)
        assert (raw(dst) == raw(view)).all()


@pytest.mark.parametrize(
    ("src", "dst"), [(np.float64, np.int16), (np.int16, np.float64), (np.float32, np.int32)]
)
def test_a_large_cast_that_changes_the_layout(src, dst):
    given = (np.arange(3 * 700 * 600) % 30_011 - 15_000).astype(src).reshape(3, 700, 600)
    for view in (
        given,
        given.transpose(0, 2, 1),
        given.transpose(1, 2, 0),
        np.broadcast_to(given[:1], given.shape),
    ):
        into = np.empty(view.shape, dst)
        copy.copy(into, view)
        assert (into == view).all()


def test_the_bits_of_nans_survive():
    src = np.full((600, 600), 0x7FA00001, np.uint32).view(np.float32)
    dst = np.empty((600, 600), np.float32)
    copy.copy(dst, src.T)
    assert (dst.view(np.uint32) == 0x7FA00001).all()


def test_overlap_negative_strides_and_unaligned_memory_are_right():
    square = filled((700, 700), np.uint32).copy()
    expected = square.T.copy()
    copy.copy(square, square.T)
    assert (square == expected).all()
    dst = np.empty((700, 700), np.uint32)
    copy.copy(dst, square[::-1, ::-1].T)
    assert (dst == square[::-1, ::-1].T).all()
    memory = filled((4 * 700 * 700 + 1,), np.uint8)
    odd = memory[1:].view(np.uint32).reshape(700, 700)
    copy.copy(dst, odd.T)
    assert (dst == odd.T).all()
    into = np.zeros(4 * 700 * 700 + 3, np.uint8)
    copy.copy(into[3:].view(np.uint32).reshape(700, 700), square.T)
    assert (into[3:].view(np.uint32).reshape(700, 700) == square.T).all()


def test_a_read_only_source_and_a_broadcast_one():
    src = filled((1, 700), np.uint32).copy()
    src.flags.writeable = False
    dst = np.empty((700, 700), np.uint32)
    copy.copy(dst, src.T)
    assert (dst == src.T).all()
    copy.copy(dst, src[0])
    assert (dst == src).all()


def test_from_several_threads_at_once():
    src = filled((900, 800), np.uint32)
    outputs = [np.empty((800, 900), np.uint32) for _ in range(4)]
    threads = [threading.Thread(target=copy.copy, args=(dst, src.T)) for dst in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((dst == src.T).all() for dst in outputs)


def test_memory_is_released():
    src, dst = filled((600, 600), np.uint32), np.empty((600, 600), np.uint32)
    before = sys.getrefcount(src), sys.getrefcount(dst)
    copy.copy(dst, src.T)
    assert (sys.getrefcount(src), sys.getrefcount(dst)) == before


# --- plans ----------------------------------------------------------------------------------------


def walk_of(itemsize, shape, dst, src, alignment=64):
    walk = copy_plan.normalise(itemsize, shape, dst, src, alignment)
    return walk.itemsize, walk.shape, walk.dst, walk.src


def test_normalise():
    # dense both: one run of 16-byte words
    assert walk_of(4, (64, 32), (128, 4), (128, 4)) == (16, [512], [16], [16])
    # an address or a pitch that is no multiple of 8 stops the widening
    assert walk_of(4, (64, 32), (128, 4), (128, 4), 4) == (4, [2048], [4], [4])
    assert walk_of(4, (64, 200), (800, 4), (804, 4))[0] == 4
    # a short run is one element
    assert walk_of(4, (64, 3), (12, 4), (16, 4)) == (12, [64], [12], [16])
    assert walk_of(1, (9, 64, 128), (8192, 128, 1), (128, 1152, 1))[0] == 128
    # size-1 dimensions go, transposes stay
    assert walk_of(4, (1, 8, 1, 6), (0, 24, 7, 4), (9, 4, 0, 32)) == (4, [6, 8], [4, 24], [32, 4])
    assert walk_of(2, (), (), ()) == (2, [], [], [])
    # a broadcast dimension merges with another one
    assert walk_of(4, (2, 3, 5), (60, 20, 4), (0, 0, 8)) == (4, [5, 6], [4, 20], [8, 0])


def test_boxes_cover_a_walk_without_gaps():
    for (_, shape, view), itemsize in itertools.product(KINDS, WORDS):
        src = view(np.empty(shape, WORDS[itemsize]))
        plan = plan_of(np.empty(src.shape, src.dtype), src)
        if plan.box is None:
            assert plan.kind == ROWS
            continue
        assert len(plan.box) == len(plan.walk.shape)
        assert all(1 <= part <= n for part, n in zip(plan.box, plan.walk.shape))


def test_even_parts():
    assert copy_plan.even_part(49, 256) == 49
    assert copy_plan.even_part(300, 256) == 300
    assert copy_plan.even_part(600, 256) == 300
    assert copy_plan.even_part(1, 5) == 1


def test_small_copies_do_not_plan(monkeypatch):
    monkeypatch.setattr(copy_walk, "copy", None)
    dst = np.empty((4, 3), bfloat16.np)
    copy.copy(dst, np.ones((3, 4), bfloat16.np).T)
    assert (dst == 1).all()


def test_between_256_kib_and_1_mib_only_another_order_is_planned(monkeypatch):
    planned = []
    inner = copy_walk._planned
    monkeypatch.setattr(copy_walk, "_planned", lambda *a: planned.append(a) or inner(*a))
    x = np.arange(512 * 512, dtype=np.uint16).reshape(512, 512)

    def plans(source):
        planned.clear()
        dst = np.empty(source.shape, x.dtype)
        copy.copy(dst, source)
        assert (dst == source).all()
        return len(planned)

    assert plans(x.T) == 1
    assert plans(np.repeat(x, 2, 0)[::2]) == plans(x) == 0
    assert plans(np.broadcast_to(x[:1], x.shape)) == 0
    large = np.tile(x, (9, 1))
    assert plans(large) == 0 and plans(large[::2]) == 1  # contiguous on several threads, unplanned
    assert plans(x[:200, :200].T) == 0
