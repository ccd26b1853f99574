// dst[i] = src[i] between any two layouts and dtypes, src broadcast.                  family: copy
//
// Shapes   any strides; dst and src may not overlap unless they are the same elements.
// Types    equal dtypes are moved as words of their size; casts follow Note [Casts] of
//          kernels/cuda/include/types.cuh.
// Order    elements are independent. Casts that change the layout use a buffer in the cache.
#include "copy_plan.h"

namespace CAPABILITY {
namespace copies {

// --- casts --------------------------------------------------------------------------------------

// Both sides are dense along A.
static void cast_rows(const Plan& p, const Unit& unit) {
  for (i64 k = 0; k < unit.m; k++)
    p.cast(unit.at.to + p.b.to[k], unit.at.from + p.b.from[k], unit.n);
}

// A box of src is copied in dst's order, cast row by row, and copied once more if dst has gaps.
static void cast_boxes(const Plan& p, const Unit& unit) {
  alignas(LINE) char scratch[2 * SCRATCH_BYTES];
  alignas(LINE) char row[SCRATCH_ROW * 16];
  Unit inner = {{scratch, unit.at.from}, unit.n, unit.m, {scratch, unit.next.from}};
  if (p.moves.lanes) {
    inner.m = 1;
    if (p.moves.into_pixels) inner.n /= p.moves.lanes;
  }
  p.loop(p.moves, inner);
  if (p.is_block) return p.cast(unit.at.to, scratch, unit.n * unit.m);
  for (i64 k = 0; k < unit.m; k++) {
    char* to = unit.at.to + p.b.to[k];
    if (p.is_row) {
      p.cast(to, scratch + k * p.pitch, unit.n);
      continue;
    }
    p.cast(row, scratch + k * p.pitch, unit.n);
    const i64 item = p.walk.to_item;
    const i64* place = p.a.to;
#define SCATTER(ITEM)                                                              \
  case ITEM:                                                                       \
    for (i64 i = 0; i < unit.n; i++)                                               \
      *(word<ITEM>*)(to + place[i]) = ((const word<ITEM>*)row)[i];                 \
    break;
    switch (item) { SCATTER(1) SCATTER(2) SCATTER(4) SCATTER(8) SCATTER(16) }
#undef SCATTER
  }
}

static bool is_dense(const i64* places, i64 n, i64 step) {
  for (i64 k = 0; k < n; k++)
    if (places[k] != k * step) return false;
  return true;
}

static void choose_cast(Plan& p) {
  Walk& w = p.walk;
  const i64 item = w.from_item, both = w.to_item + item;
  int a[MOST_DIMS] = {0}, b[MOST_DIMS], n_a = 1, n_b = 0, lane, run;
  if (!w.n) w.dim[w.n++] = {1, w.to_item, w.from_item};
  const bool is_run = w.dim[0].to == w.to_item;
  if (is_run && w.dim[0].from == item && (w.n == 1 || w.dim[0].size >= DIRECT_FROM)) {
    p.work = cast_rows;
    n_b = others(w, a, 1, a, 0, false, b);
    return cut(p, a, 1, unit_bytes(p) / both & ~(i64)(LINE - 1), LINE, false, b, n_b, unit_bytes(p),
               both);
  }
  p.work = cast_boxes, p.moves = {&p.a, &p.in_scratch, item, 0, 0, false, false, false};
  const int x = run_of_src(w), size = log2_of(item);
  bool turns = false;
  if (is_run && x > 0 && w.dim[0].from) {
    if (find_lanes(w, x, lane, run)) {
      turns = true;
      p.loop = LANES[size], p.moves.into_pixels = lane == 0, p.moves.lanes = (int)w.dim[lane].size;
      p.moves.step = w.dim[lane].from;
      a[0] = lane == 0 ? lane : run, b[0] = lane;
      if (lane == 0) a[1] = run;
      n_a = lane == 0 ? 2 : 1, n_b = lane == 0 ? 0 : 1;
    } else {
      grow(w, x, a, n_a, b, n_b);
      turns = volume(w, a, n_a) * item >= 16 && volume(w, b, n_b) * item >= 16;
      if (turns) p.loop = TILES[size];
    }
  }
  if (!turns) {
    n_a = 1;
    i64 entries = w.dim[0].size;
    for (; n_a < w.n && (!is_run || w.dim[n_a].to == entries * w.to_item); n_a++) {
      entries *= w.dim[n_a].size;
      a[n_a] = n_a;
    }
    p.loop = GATHERS[size];
    n_b = others(w, a, n_a, a, 0, true, b);
  }
  const bool is_lane = p.moves.lanes && !p.moves.into_pixels;
  i64 row = SCRATCH_ROW;
  if (p.moves.into_pixels) row -= row % p.moves.lanes;
  const i64 entries = least(volume(w, a, n_a), row);
  const i64 spaced =
      entries * item < LINE ? (LINE + entries - 1) / entries : item;  // a row occupies a line
  cut(p, a, n_a, row, 1, true, b, n_b, SCRATCH_BYTES, spaced);
  const i64 n = p.along.full * p.along.part, m = p.across.full * p.across.part;
  p.is_row = is_dense(p.a.to, n, w.to_item);
  p.is_block = p.is_row && p.digit[0].count == 1 && is_dense(p.b.to, m, n * w.to_item);
  p.pitch = p.is_block ? n * item : (n * item + LINE - 1) / LINE * LINE;
  if (is_lane) p.moves.step = p.pitch;
  for (i64 k = 0; k < m; k++) p.in_scratch.to[k] = k * p.pitch, p.in_scratch.from[k] = p.b.from[k];
}

// --- the function -------------------------------------------------------------------------------

// (dst, src, bytes of the last cache) -> 0; or 1, with no element written, if NumPy must copy.
static i64 copy(const Call& call) {
  const Array &dst = call.array[0], &src = call.array[1];
  if (dst.dtype < 0 || src.dtype < 0) return 1;
  Plan p;
  if (!read(p.walk, dst, src)) return 1;
  if (!dst.size) return 0;
  const bool is_cast = dst.dtype != src.dtype;
  switch (overlap(p.walk)) {
    case MIXED: return 1;
    case SAME: return is_cast;
    case APART: break;
  }
  p.numel = dst.size;
  if (is_cast) {
    if (!is_aligned(dst) || !is_aligned(src)) return 1;
    p.cast = casts[src.dtype][dst.dtype];
    p.moves.streams = false;
    choose_cast(p);
  } else {
    choose(p, call.integer[0]);
  }
  share(call, p);
  return 0;
}

}  // namespace copies

static const abi::FunctionEntry functions[] = {{"copy", copies::copy}};
extern const abi::Family copy = {"copy", functions};

}  // namespace CAPABILITY
