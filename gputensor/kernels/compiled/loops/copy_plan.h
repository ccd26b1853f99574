// The choice of a loop of copy_words.h for a copy, and its units of work.
//
// Shapes   any strides; src may have negative strides (a flip) and is broadcast; dst has each
//          element once.
// Order    units in the order of src for rows, otherwise of dst. Each thread runs ranges of units.
//
// Dimensions are sorted by dst's strides and merged. Table A has the entries of one unit along
// dst's run, table B the entries across it. Each table covers one or more dimensions, the last of
// them in parts.
#ifndef GPUTENSOR_COPY_PLAN
#define GPUTENSOR_COPY_PLAN

#include "copy_words.h"

namespace CAPABILITY {

extern const abi::Cast casts[abi::N_DTYPES][abi::N_DTYPES];

namespace copies {

using abi::Array;
using abi::MOST_DIMS;

struct Dimension { i64 size, to, from; };

struct Walk {
  Place at;
  i64 to_item, from_item;  // bytes of an element
  int n;
  Dimension dim[MOST_DIMS];  // the first is dst's fastest; `to` is above 0
};

// In bytes: a unit of work; a run of both sides that is long enough, so that no other dimension is
// needed; a run of dst that is cut at the ends of cache lines even if it begins within one; a run
// that memcpy copies faster than stores of whole lines past the cache; and an element that is moved
// as a whole.
constexpr i64 UNIT_BYTES = 1 << 19, SHORT_RUN = 256, LONG_RUN = 1024, LONG_ROW = 1 << 12,
              LONG_PIECE = 64;
// From this number of bytes on, a second thread is used.
constexpr i64 PARALLEL_FROM = 1 << 18;
// For casts that change the layout: bytes of the buffer, which stays in the first-level cache;
// elements of a row of the buffer; and the row length from which on rows are cast in place.
constexpr i64 SCRATCH_BYTES = 1 << 14, SCRATCH_ROW = 256, DIRECT_FROM = 64;

struct Digit { i64 count, to, from; };  // digits of a unit's index; distance in bytes

struct Side {  // a table's entries in a unit: `full`, multiplied by `part` of a dimension's `size`
  i64 full = 1, part = 1, size = 1;
  i64 entries(i64 index) const { return full * least(part, size - index * part); }
};

struct Plan;
typedef void (*Work)(const Plan& plan, const Unit& unit);

struct Plan {
  Walk walk;
  Work work;
  Loop loop;
  Moves moves;
  Table a, b;
  Side along, across;
  int n;
  Digit digit[MOST_DIMS + 2];
  i64 numel, units;
  abi::Cast cast;
  i64 pitch;              // of a buffer
  bool is_row, is_block;  // A is a run of dst; a whole unit is one run
  Table in_scratch;
};

INLINE i64 size_of(i64 x) { return x < 0 ? -x : x; }

// Returns false if the sizes do not fit, or if elements of dst overlap.
static bool read(Walk& w, const Array& dst, const Array& src) {
  const int lead = dst.ndim - src.ndim;
  if (lead < 0) return false;
  w.at = {dst.data, src.data}, w.to_item = dst.itemsize, w.from_item = src.itemsize;
  int n = 0;
  for (int d = 0; d < dst.ndim; d++) {
    Dimension now = {dst.shape[d], dst.stride[d], 0};
    if (d >= lead) {
      const i64 size = src.shape[d - lead];
      if (size != 1 && size != now.size) return false;
      if (size != 1) now.from = src.stride[d - lead];
    }
    if (now.size == 1) continue;
    if (now.to < 0) {
      w.at.to += (now.size - 1) * now.to, w.at.from += (now.size - 1) * now.from;
      now.to = -now.to, now.from = -now.from;
    }
    if (now.to == 0 && dst.size) return false;
    int k = n++;
    for (; k > 0; k--) {
      const Dimension& before = w.dim[k - 1];
      if (before.to < now.to || (before.to == now.to && size_of(before.from) <= size_of(now.from)))
        break;
      w.dim[k] = before;
    }
    w.dim[k] = now;
  }
  w.n = 0;
  for (int d = 0; d < n; d++) {
    Dimension* last = w.n ? &w.dim[w.n - 1] : nullptr;
    if (last && w.dim[d].to == last->to * last->size && w.dim[d].from == last->from * last->size)
      last->size *= w.dim[d].size;
    else
      w.dim[w.n++] = w.dim[d];
  }
  return true;
}

enum Overlap { APART, SAME, MIXED };

static Overlap overlap(const Walk& w) {
  const char *to0 = w.at.to, *to1 = to0 + w.to_item, *from0 = w.at.from,
             *from1 = from0 + w.from_item;
  bool is_same = to0 == from0 && w.to_item == w.from_item;
  for (int d = 0; d < w.n; d++) {
    const Dimension& now = w.dim[d];
    to1 += (now.size - 1) * now.to;
    (now.from < 0 ? from0 : from1) += (now.size - 1) * now.from;
    is_same = is_same && now.to == now.from;
  }
  if (to0 >= from1 || from0 >= to1) return APART;
  return is_same ? SAME : MIXED;
}

// True if elements are aligned as the type's loops require.
static bool is_aligned(const Array& x) {
  i64 all = (i64)x.data;
  for (int d = 0; d < x.ndim; d++)
    if (x.shape[d] > 1) all |= x.stride[d];
  const int item = x.itemsize > 8 ? 8 : x.itemsize;
  return all % item == 0;
}

// True if dst is written past the cache: if both sides together exceed two thirds of it. With a
// cache of 32 MiB, stores past it take 1.3 to 1.7 times as long for 16 MiB, and 0.55 to 0.9 times
// as long for 24 MiB and more.
static bool empties_cache(const Walk& w, i64 cache) {
  i64 written = w.to_item, read = w.from_item;
  for (int d = 0; d < w.n; d++) {
    written *= w.dim[d].size;
    if (w.dim[d].from) read *= w.dim[d].size;
  }
  return 3 * (written + read) > 2 * cache;
}

// --- units --------------------------------------------------------------------------------------

// Add dimensions to a table, in order, until it has about `target` entries. A part of a single
// dimension is a multiple of `multiple`, which divides `target`.
static int take(Plan& p, const int* dims, int n, i64 target, i64 multiple, Table* table, Side& side,
                Digit& digit) {
  side = Side(), digit = {1, 0, 0};
  if (table) table->to[0] = table->from[0] = 0;
  i64 count = 1;
  int taken = 0;
  while (taken < n && (taken == 0 || 2 * count <= target)) {
    const Dimension& d = p.walk.dim[dims[taken]];
    i64 part = d.size;
    if (count * part > target) {
      const i64 most = target / count < 1 ? 1 : target / count, parts = (d.size + most - 1) / most;
      part = (d.size + parts - 1) / parts;
      if (!taken) part = (part + multiple - 1) / multiple * multiple;
    }
    if (table)
      for (i64 k = 1; k < part; k++)
        for (i64 i = 0; i < count; i++) {
          table->to[k * count + i] = table->to[i] + k * d.to;
          table->from[k * count + i] = table->from[i] + k * d.from;
        }
    side = {count, part, d.size};
    digit = {(d.size + part - 1) / part, part * d.to, part * d.from};
    count *= part, taken++;
    if (part < d.size) break;
  }
  return taken;
}

static void run(const Plan& p, i64 first, i64 last) {
  i64 index[MOST_DIMS + 2], rest = first;
  Place at = p.walk.at;
  for (int d = 0; d < p.n; d++) {
    index[d] = rest % p.digit[d].count, rest /= p.digit[d].count;
    at.to += index[d] * p.digit[d].to, at.from += index[d] * p.digit[d].from;
  }
  for (i64 number = first; number < last; number++) {
    Unit unit = {at, p.along.entries(index[0]), p.across.entries(index[1]), at};
    for (int d = 0; d < p.n; d++) {
      const Digit& digit = p.digit[d];
      if (++index[d] < digit.count) {
        at.to += digit.to, at.from += digit.from;
        break;
      }
      at.to -= (digit.count - 1) * digit.to, at.from -= (digit.count - 1) * digit.from;
      index[d] = 0;
    }
    unit.next = at;
    p.work(p, unit);
  }
  if (p.moves.streams) end_of_lines();
}

static void move(const Plan& p, const Unit& unit) { p.loop(p.moves, unit); }

static void share(const Call& call, Plan& p) {
  const i64 item = p.walk.to_item > p.walk.from_item ? p.walk.to_item : p.walk.from_item;
  const i64 nbytes = p.numel * item;
  if (nbytes < PARALLEL_FROM) return run(p, 0, p.units);
  const i64 piece = nbytes / 8 < UNIT_BYTES ? nbytes / 8 : UNIT_BYTES,
            step = p.units * piece / nbytes;
  call.share(as_body(run), &p, p.units, step < 1 ? 1 : step);
}

// Bytes of a unit, for a copy of this number of bytes.
INLINE i64 unit_bytes(const Plan& p) {
  const i64 part = p.numel * p.walk.to_item / 4;
  return part > UNIT_BYTES ? UNIT_BYTES : part < 1 << 14 ? 1 << 14 : part;
}

INLINE i64 between(i64 low, i64 x, i64 high) { return x < low ? low : x > high ? high : x; }

// Write the dimensions that are in neither list, sorted by src's strides or in dst's order. A
// dimension along which src repeats keeps dst's order. Returns their number.
static int others(const Walk& w, const int* a, int n_a, const int* b, int n_b, bool by_src,
                  int* found) {
  int n = 0;
  for (int d = 0; d < w.n; d++) {
    bool is_new = true;
    for (int k = 0; k < n_a; k++) is_new = is_new && a[k] != d;
    for (int k = 0; k < n_b; k++) is_new = is_new && b[k] != d;
    if (!is_new) continue;
    const auto step = [&w](int of) {
      return w.dim[of].from ? size_of(w.dim[of].from) : w.dim[of].to;
    };
    int k = n++;
    for (; by_src && k > 0 && step(found[k - 1]) > step(d); k--) found[k] = found[k - 1];
    found[k] = d;
  }
  return n;
}

// Set the tables of A in `a` and of B in `b`, and the digits.
static void cut(Plan& p, const int* a, int n_a, i64 along, i64 multiple, bool has_a, const int* b,
                int n_b, i64 bytes, i64 item, i64 multiple_b = 1) {
  n_a = take(p, a, n_a, along, multiple, has_a ? &p.a : nullptr, p.along, p.digit[0]);
  const i64 entries = p.along.full * p.along.part;
  i64 across = between(1, bytes / (entries * item), MOST_ENTRIES);
  across = (across + multiple_b - 1) / multiple_b * multiple_b;
  n_b = take(p, b, n_b, across, multiple_b, &p.b, p.across, p.digit[1]);
  int rest[MOST_DIMS];
  const int n = others(p.walk, a, n_a, b, n_b, false, rest);
  for (int k = 0; k < n; k++) {
    const Dimension& d = p.walk.dim[rest[k]];
    p.digit[2 + k] = {d.size, d.to, d.from};
  }
  p.n = 2 + n, p.units = 1;
  for (int d = 0; d < p.n; d++) p.units *= p.digit[d].count;
}

// --- the choice ---------------------------------------------------------------------------------

#define FIVE(NAME) {NAME<1>, NAME<2>, NAME<4>, NAME<8>, NAME<16>}
static const Loop TILES[] = FIVE(tiles), LANES[] = FIVE(lanes), REPEATS[] = FIVE(repeats),
                  LINES[] = FIVE(lines), GATHERS[] = FIVE(gathers);
#undef FIVE
static const Loop ONE[] = {pieces<1, false>, pieces<2, false>, pieces<4, false>,
                           pieces<8, false>, pieces<16, false>, pieces<32, false>};
static const Loop TWO[] = {nullptr, pieces<2, true>, pieces<4, true>,
                           pieces<8, true>, pieces<16, true>, pieces<32, true>};

INLINE int log2_of(i64 size) { return 63 - __builtin_clzll(size); }
INLINE bool is_power(i64 size) { return (size & (size - 1)) == 0; }

// The dimension along which src is dense, or -1.
static int run_of_src(const Walk& w) {
  for (int d = 0; d < w.n; d++)
    if (w.dim[d].from == w.from_item) return d;
  return -1;
}

// Find the dimensions of dst's and src's runs, until the shorter run is long enough or no dimension
// is left.
static void grow(const Walk& w, int x, int* a, int& n_a, int* b, int& n_b) {
  i64 run[2] = {w.dim[0].size, w.dim[x].size};
  bool ends[2] = {false, false};
  a[0] = 0, b[0] = x, n_a = n_b = 1;
  for (;;) {
    int side = run[0] <= run[1] ? 0 : 1;
    if (ends[side]) side = 1 - side;
    if (ends[side] || run[side] * w.from_item >= SHORT_RUN) return;
    int found = -1;
    for (int d = 1; d < w.n && found < 0; d++) {
      const i64 step = side ? w.dim[d].from : w.dim[d].to, item = side ? w.from_item : w.to_item;
      if (step == run[side] * item) found = d;
    }
    for (int k = 0; k < n_a; k++) if (a[k] == found) found = -1;
    for (int k = 0; k < n_b; k++) if (b[k] == found) found = -1;
    if (found < 0) {
      ends[side] = true;
      continue;
    }
    (side ? b[n_b++] : a[n_a++]) = found;
    run[side] *= w.dim[found].size;
  }
}

static i64 volume(const Walk& w, const int* dims, int n) {
  i64 found = 1;
  for (int k = 0; k < n; k++) found *= w.dim[dims[k]].size;
  return found;
}

// Find the lane and the run of a copy between planes and pixels. Returns false for other copies.
static bool find_lanes(const Walk& w, int x, int& lane, int& run) {
  for (int k = 0; k < 2; k++) {
    lane = k ? x : 0, run = k ? 0 : x;
    const Dimension &of_lane = w.dim[lane], &of_run = w.dim[run];
    if (of_lane.size < 2 || of_lane.size > 4 || of_run.size * w.from_item < LINE) continue;
    if (k ? of_run.from == of_lane.size * w.from_item : of_run.to == of_lane.size * w.to_item)
      return true;
  }
  return false;
}

static void as_rows(Plan& p, i64 run, i64 cache) {
  Walk& w = p.walk;
  bool streams = (u64)w.at.to % LINE == 0 && run % LINE == 0, repeats = false;
  for (int d = 1; d < w.n; d++) {
    streams = streams && w.dim[d].to % LINE == 0;
    repeats = repeats || w.dim[d].from == 0;
  }
  // past the cache only if memcpy is not faster
  streams = streams && (run < LONG_ROW || repeats) && empties_cache(w, cache);
  w.dim[0] = {run, 1, 1};
  int a[] = {0}, b[MOST_DIMS];
  const int n = others(w, a, 1, a, 0, true, b);
  p.loop = rows, p.moves.item = 1, p.moves.streams = streams;
  cut(p, a, 1, unit_bytes(p) & ~(i64)(LINE - 1), LINE, false, b, n, unit_bytes(p), 1);
}

// A plan for copies that have no runs, or short ones, on both sides.
static void as_pieces(Plan& p) {
  const Walk& w = p.walk;
  int a[MOST_DIMS], b[MOST_DIMS], x = 0;
  for (int d = 1; d < w.n; d++)
    if (w.dim[d].from && size_of(w.dim[d].from) < size_of(w.dim[x].from)) x = d;
  const bool turns = x != 0 && w.dim[0].from;
  const int n_a = others(w, &x, turns ? 1 : 0, a, 0, false, a);
  int n_b = 0;
  if (turns) b[n_b++] = x;
  // a box of both sides' short strides stays in the cache
  cut(p, a, n_a, turns ? 64 : 512, 1, true, b, n_b, turns ? 1 << 14 : unit_bytes(p), p.moves.item);
}

static bool as_tiles(Plan& p, int x, i64 cache) {
  const Walk& w = p.walk;
  const i64 item = w.to_item;
  int a[MOST_DIMS], b[MOST_DIMS], n_a, n_b;
  grow(w, x, a, n_a, b, n_b);
  const i64 run = volume(w, a, n_a);
  if (run * item < 16 || volume(w, b, n_b) * item < 16) return false;
  // cut a run at the ends of dst's cache lines if this leaves few partial lines
  const u64 begin = (u64)w.at.to;
  bool has_lines = begin % item == 0;
  for (int d = 1; d < w.n; d++) {
    bool is_along = false;
    for (int k = 0; k < n_a; k++) is_along = is_along || a[k] == d;
    has_lines = has_lines && (is_along || w.dim[d].to % LINE == 0);
  }
  p.moves.is_aligned = has_lines && (begin % LINE == 0 || run * item >= LONG_RUN);
  p.moves.streams = p.moves.is_aligned && item > 1 && empties_cache(w, cache);
  p.loop = TILES[log2_of(item)];
  cut(p, a, n_a, MOST_ENTRIES, LINE / item, true, b, n_b, unit_bytes(p), item, LINE / item);
  return true;
}

static void as_lanes(Plan& p, int lane, int run) {
  Walk& w = p.walk;
  p.loop = LANES[log2_of(w.to_item)];
  p.moves.into_pixels = lane == 0, p.moves.lanes = (int)w.dim[lane].size;
  p.moves.step = lane == 0 ? w.dim[lane].from : w.dim[lane].to;
  for (int d = lane + 1; d < w.n; d++) w.dim[d - 1] = w.dim[d];  // the loop runs over this run
  w.n--;
  int a[] = {run > lane ? run - 1 : run}, b[MOST_DIMS];
  const i64 item = w.to_item * p.moves.lanes;
  cut(p, a, 1, unit_bytes(p) / item, 1, false, b, others(w, a, 1, a, 0, false, b), unit_bytes(p),
      item);
}

// A copy without a cast.
static void choose(Plan& p, i64 cache) {
  Walk& w = p.walk;
  p.work = move, p.moves = {&p.a, &p.b, w.to_item, 0, 0, false, false, false};
  const i64 item = w.to_item;
  i64 run = item;
  if (!w.n) w.dim[w.n++] = {1, item, item};
  if (w.dim[0].to == item && w.dim[0].from == item) {
    run *= w.dim[0].size;
    if (run > LONG_PIECE || w.n == 1) return as_rows(p, run, cache);
    for (int d = 1; d < w.n; d++) w.dim[d - 1] = w.dim[d];
    w.n--;
    w.to_item = w.from_item = run, p.numel /= run / item;
  }
  const bool is_word = is_power(run) && run <= 16;
  if (is_word && w.dim[0].to == run) {
    int a[MOST_DIMS] = {0}, b[MOST_DIMS], lane, along;
    const int x = run_of_src(w);
    if (w.dim[0].from == 0 && w.dim[0].size * run >= 16) {
      p.loop = REPEATS[log2_of(run)];
      cut(p, a, 1, unit_bytes(p) / run, 1, false, b, others(w, a, 1, a, 0, true, b), unit_bytes(p),
          run);
      return;
    }
    if (x > 0 && w.dim[0].from && find_lanes(w, x, lane, along)) return as_lanes(p, lane, along);
    if (x > 0 && w.dim[0].from && as_tiles(p, x, cache)) return;
    if (w.dim[0].size * run >= LINE) {
      p.loop = LINES[log2_of(run)], p.moves.step = w.dim[0].from;
      cut(p, a, 1, MOST_ENTRIES, 1, false, b, others(w, a, 1, a, 0, true, b), unit_bytes(p), run);
      return;
    }
    int n_a = 1;
    for (i64 size = w.dim[0].size; n_a < w.n && w.dim[n_a].to == size * run && size < SHORT_RUN;
         n_a++) {
      size *= w.dim[n_a].size;
      a[n_a] = n_a;
    }
    p.loop = GATHERS[log2_of(run)];
    cut(p, a, n_a, MOST_ENTRIES, 1, true, b, others(w, a, n_a, a, 0, true, b), unit_bytes(p), run);
    return;
  }
  p.moves.item = run;
  p.loop = is_power(run) && run <= 32 ? ONE[log2_of(run)] : TWO[least(log2_of(run), 5)];
  as_pieces(p);
}

}  // namespace copies
}  // namespace CAPABILITY

#endif
