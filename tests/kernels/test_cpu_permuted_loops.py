"""Copies between two orders of dimensions by loops that g++ builds: each byte as NumPy's copy."""

from __future__ import annotations

import os
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gputensor as gt
from gputensor.kernels.cpu import copy, copy_compiled, copy_permuted, copy_walk
from gputensor.runtime import cpu

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


@pytest.fixture(autouse=True)
def on_two_threads():
    threads, before = gt.get_num_threads(), copy_compiled._is_on
    gt.set_num_threads(2)
    gt.set_compiled_loops(True)
    yield
    gt.set_num_threads(threads)
    copy_compiled._is_on = before


def memory(nbytes, offset):
    """Bytes that begin `offset` bytes behind a cache line, with a margin on both sides."""
    whole = np.full(nbytes + 256, 0xA5, np.uint8)
    begin = -whole.ctypes.data % 64 + 64 + offset
    return whole, whole[begin : begin + nbytes]


def holds(monkeypatch, nbytes):
    """What the cache is said to hold."""
    monkeypatch.setattr(cpu, "cache_nbytes", lambda: nbytes)


def filled(shape, dtype, offset=0):
    flat = memory(int(np.prod(shape)) * np.dtype(dtype).itemsize, offset)[1]
    flat[...] = (np.arange(flat.size) * 2654435761 >> 7).astype(np.uint8)
    return flat.view(dtype).reshape(shape)


def test_pairs_of_f64_need_no_more_than_eight_bytes(monkeypatch):
    holds(monkeypatch, 0)
    for shape, order in (((96, 64, 2), (1, 0, 2)), ((3, 4096, 2), (1, 0, 2))):
        src = filled(shape, np.float64, 8).transpose(order)
        for offset in (0, 8):
            plan = check(src, offset)
            assert plan is not None and plan.words == 16


def check(src, offset=0, margin=0):
    """The plan that copied `src` into dense memory, or rows with a margin, as NumPy does."""
    wide = [*src.shape[:-1], src.shape[-1] + margin]
    whole, flat = memory(int(np.prod(wide)) * src.itemsize, offset)
    dst = flat.view(src.dtype).reshape(wide)[..., : src.shape[-1]]
    np.copyto(dst, src)
    expected = whole.copy()
    whole[...] = 0xA5
    to, source = dst.ctypes.data, src.ctypes.data
    layout = src.itemsize, dst.shape, dst.strides, src.strides, copy_walk._alignment(to, source)
    plan = copy_permuted.planned.__wrapped__(*layout, to % 64 == 0)
    if plan is not None:
        copy_permuted.run(plan, to, source, src.nbytes)
        assert (whole == expected).all(), plan
    return plan


CASES = [
    ("tiles", (701, 643), lambda x: x.T),
    ("tiles", (1024, 1024), lambda x: x.T),
    ("tiles", (3000, 40), lambda x: x.T),
    ("tiles", (5, 64, 37, 41), lambda x: x.transpose(0, 2, 3, 1)),
    ("tiles", (21, 33, 27, 30), lambda x: x.transpose(3, 2, 1, 0)),
    ("tiles", (701, 300), lambda x: x[3:, 5:290].T),
    ("tiles", (1, 90, 80), lambda x: np.broadcast_to(x, (3, 90, 80)).transpose(0, 2, 1)),
    ("lanes", (4, 3, 100, 121), lambda x: x.transpose(0, 2, 3, 1)),
    ("lanes", (2, 200, 121, 4), lambda x: x.transpose(0, 3, 1, 2)),
    ("lanes", (10_001, 2), lambda x: x.T),
    ("repeats", (3000, 1), lambda x: np.broadcast_to(x, (3000, 37))),
    ("repeats", (40, 50, 1), lambda x: np.broadcast_to(x, (40, 50, 41)).transpose(1, 0, 2)),
    ("rows", (64, 16, 32, 64), lambda x: x.transpose(1, 0, 2, 3)),
    ("rows", (300, 77, 40), lambda x: x[:, ::2]),
]


@pytest.mark.parametrize("itemsize", WORDS)
@pytest.mark.parametrize(
    "loop, shape, view", CASES, ids=[f"{loop}-{shape}" for loop, shape, _ in CASES]
)
@pytest.mark.parametrize("streams", [False, True])
def test_each_loop_has_the_bytes_of_numpys(loop, shape, view, itemsize, streams, monkeypatch):
    if streams:
        holds(monkeypatch, 0)
    src = view(filled(shape, WORDS[itemsize]))
    for offset in {0, 8, 16, 64 - itemsize}:
        plan = check(src, offset)
        assert plan is not None and plan.loop == loop
    check(src, margin=3)


@pytest.mark.parametrize(
    "src, passes",
    [
        (filled((64, 16, 128), np.float32).transpose(1, 0, 2), True),
        (filled((64, 16, 40), np.float32).transpose(1, 0, 2), False),  # parts of lines
        (filled((64, 2, 2048), np.float32)[:, 1], False),  # which memcpy moves faster
        (np.broadcast_to(filled((1, 2048), np.float32), (64, 2048)), True),
    ],
    ids=["lines", "parts of lines", "long rows", "one row many times"],
)
def test_rows_of_whole_lines_are_written_past_the_cache(src, passes, monkeypatch):
    holds(monkeypatch, 0)
    for offset, expected in ((0, passes), (16, False)):
        plan = check(src, offset)
        assert plan is not None and plan.loop == "rows" and plan.table[4] == expected
    touched = src.nbytes + (src[:1] if 0 in src.strides else src).nbytes
    for cache, expected in ((3 * touched // 2, False), (3 * touched // 2 - 1, passes)):
        holds(monkeypatch, cache)
        assert check(src).table[4] == expected  # what a cache holds is written into it


def test_short_runs_on_either_side_are_walked_until_they_are_long():
    sizes = 48, 48, 36, 48
    plan = check(filled((48, 48, 48, 36), np.float32).transpose(2, 1, 3, 0))
    dims = plan.table[5:].reshape(-1, 3).tolist()
    assert [dims[0][0], dims[1][0]] == [48, 36] and [d[2] for d in dims[1:3]] == [4, 144]
    assert sorted(d[0] for d in dims) == sorted(sizes)
    plan = check(filled((9, 13, 15, 11), np.float32).transpose(3, 2, 1, 0))
    assert plan.table[5:].reshape(-1, 3)[:2].tolist() == [[9, 4, 8580], [11, 7020, 4]]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(1, 70), min_size=1, max_size=5), st.randoms(use_true_random=False),
    st.sampled_from(list(WORDS)), st.sampled_from([0, 1, 4, 16, 60]), st.integers(0, 5),
    st.sampled_from([0, 1 << 23]), st.sampled_from([64, 1 << 12, 1 << 19]),
)  # fmt: skip
def test_any_order_of_dimensions(sizes, random, itemsize, offset, margin, cache, unit):
    while np.prod(sizes) > 200_000:
        sizes.pop()
    order = list(range(len(sizes)))
    random.shuffle(order)
    src = filled(sizes, WORDS[itemsize]).transpose(order)
    if random.random() < 0.3 and src.shape[0] > 2:
        src = src[1:-1]
    with pytest.MonkeyPatch.context() as patch:
        holds(patch, cache)
        patch.setattr(copy_permuted, "_UNIT_NBYTES", unit)
        patch.setattr(copy_permuted, "_PARALLEL_FROM", 0)
        check(src, offset, margin)


def test_a_large_transpose_takes_them_and_what_they_cannot_do_goes_to_numpy():
    src = filled((1024, 700), np.float32)
    dst = np.empty((700, 1024), np.float32)
    assert copy.loops(dst, src.T) == "compiled"
    copy.copy(dst, src.T)
    assert (dst.view(np.uint32) == src.view(np.uint32).T).all()
    for view in (src.T[:, ::-1], src.T[:8, :8]):
        assert copy.loops(np.empty(view.shape, view.dtype), view) == "NumPy's"
    assert copy.loops(np.empty_like(src), src) == "NumPy's"
    gt.set_compiled_loops(False)
    assert copy.loops(dst, src.T) == "NumPy's"
    assert "tiles" in repr(copy_permuted.planned(4, (700, 1024), (4096, 4), (4, 2800), 64))


@pytest.mark.parametrize(
    "sizes, expected",
    [
        (["32K", "1024K", "32768K"], 32 << 20),
        (["2M"], 2 << 20),
        (["", "?K"], 32 << 20),
        ([], 32 << 20),
    ],
)
def test_the_largest_cache_is_what_linux_tells(sizes, expected, tmp_path, monkeypatch):
    for index, size in enumerate(sizes):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    monkeypatch.setattr(cpu, "_CACHES", tmp_path)
    assert cpu.cache_nbytes.__wrapped__() == expected


# --- Threads: copy_share.cpp --------------------------------------------------------------------


@pytest.fixture
def in_small_pieces(monkeypatch):
    monkeypatch.setattr(copy_permuted, "_PARALLEL_FROM", 0)
    monkeypatch.setattr(copy_permuted, "_UNIT_NBYTES", 1 << 12)
    copy_permuted.planned.cache_clear()
    yield
    copy_permuted.planned.cache_clear()


def turned(x):
    """`x.T`, copied by the compiled loops."""
    to = np.empty(x.shape[::-1], x.dtype)
    copy_walk.copy(to, x.T)
    return to


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_callers_at_once_have_each_unit_done_once(threads, in_small_pieces):
    gt.set_num_threads(threads)
    wrong = []

    def caller(number):
        x = filled((600, 500 + number), np.uint32)
        for _ in range(100):
            if not (turned(x) == x.T).all():
                wrong.append(number)

    callers = [threading.Thread(target=caller, args=(n,)) for n in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in callers)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_copies_with_helpers_of_its_own(in_small_pieces):
    x = filled((600, 500), np.uint32)
    over = threading.Event()

    def busy():
        while not over.is_set():
            turned(x)

    other = threading.Thread(target=busy)
    other.start()
    try:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                try:
                    fine = all((turned(x) == x.T).all() for _ in range(5))
                    os._exit(0 if fine else 2)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        over.set()
        other.join(60)


def test_a_copy_within_a_piece_takes_no_further_threads(in_small_pieces, monkeypatch):
    asked = []
    x = filled((600, 500), np.uint32)
    real = copy_compiled.library

    def library(text, *given):
        asked.append(text)
        return real(text, *given)

    monkeypatch.setattr(copy_compiled, "library", library)
    cpu.share(2, 2, lambda: lambda index: turned(x))
    assert asked and "copy_share.cpp" not in asked
    turned(x)
    assert "copy_share.cpp" in asked
