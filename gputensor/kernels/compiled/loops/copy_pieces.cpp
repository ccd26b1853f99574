// dst composed of pieces of other arrays: pad, roll, cat.                           family: pieces
// Calls    place(dst, src, value, pieces): for each dimension the number of pieces, and for each
//          piece its size, its begin in src (negative: filled with value) and its step (1, 0, -1).
//          join(dst, sources, dim): concatenate along dim
// Shapes   any strides. join: all dense, in one order of dimensions.
// Types    one dtype; bytes are moved.
// Order    a row of dst is written from its begin to its end.
// Returns  1, with no element written, if NumPy must do it.
#include "copy_plan.h"

namespace CAPABILITY {
namespace copies {

constexpr int MOST_PIECES = 16;
constexpr i64 MOST_WORDS = 1024;  // longest run, in bytes, that is copied without memcpy
// Bytes of a unit of work, and of a block that is not merged with others.
constexpr i64 PIECE_BYTES = 1 << 16, BLOCK_BYTES = 1 << 14, PARALLEL_PIECES = 1 << 16;

struct Piece { i64 end, from, step; bool is_value; };  // its end in dst; bytes in src

struct Axis {
  i64 size, to, from;  // bytes
  int n;
  Piece piece[MOST_PIECES];
};

struct Placing {
  Place at;
  const char* value;
  i64 item, block;  // bytes of an element, and of a run on both sides
  int n;
  Axis axis[MOST_DIMS];  // the loop runs along the first
  i64 part, parts, units;  // entries of the first axis in a unit, and units of it
};

// --- one piece of a row -------------------------------------------------------------------------

template <int ITEM>
static void words(char* to, i64 to_step, const char* from, i64 from_step, i64 n) {
  typedef word<ITEM> W;
  if (to_step == ITEM && from_step == 0) {
    const W x = *(const W*)from;
    for (i64 i = 0; i < n; i++) ((W*)to)[i] = x;
  } else if (to_step == ITEM && from_step == -ITEM) {
    for (i64 i = 0; i < n; i++) ((W*)to)[i] = ((const W*)from)[-i];
  } else {
    for (i64 i = 0; i < n; i++) *(W*)(to + i * to_step) = *(const W*)(from + i * from_step);
  }
}

// Copy the bytes of a row in words. The last word overlaps the previous one. Rows of images are
// short, so a call of memcpy would take longer.
template <int ITEM> INLINE void by_words(char* to, const char* from, i64 nbytes) {
  for (i64 i = 0; i + ITEM <= nbytes; i += ITEM) {
    memcpy(to + i, from + i, ITEM);
    __asm__ volatile("");  // without it the compiler replaces the loop by a call of memcpy
  }
  memcpy(to + nbytes - ITEM, from + nbytes - ITEM, ITEM);
}

INLINE void move_run(char* to, const char* from, i64 nbytes) {
  if (nbytes < 4 || nbytes > MOST_WORDS) {
    memcpy(to, from, nbytes);
  } else if (nbytes < 8) {
    by_words<4>(to, from, nbytes);
  } else if (nbytes < 32) {
    by_words<8>(to, from, nbytes);
  } else {
    by_words<32>(to, from, nbytes);
  }
}

static void entries(char* to, i64 to_step, const char* from, i64 from_step, i64 n, i64 block) {
  if (to_step == block && from_step == block) {
    memcpy(to, from, n * block);
    return;
  }
  switch (block) {
    case 1: return words<1>(to, to_step, from, from_step, n);
    case 2: return words<2>(to, to_step, from, from_step, n);
    case 4: return words<4>(to, to_step, from, from_step, n);
    case 8: return words<8>(to, to_step, from, from_step, n);
    case 16: return words<16>(to, to_step, from, from_step, n);
  }
  for (i64 i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, block);
}

static void values(const Placing& p, char* to, i64 to_step, i64 n) {
  if (p.item == p.block) return entries(to, to_step, p.value, 0, n, p.item);
  if (to_step == p.block) return entries(to, p.item, p.value, 0, n * (p.block / p.item), p.item);
  for (i64 i = 0; i < n; i++)
    entries(to + i * to_step, p.item, p.value, 0, p.block / p.item, p.item);
}

// --- rows ---------------------------------------------------------------------------------------

// The piece of an axis that contains an index.
INLINE const Piece& piece_of(const Axis& axis, i64 index) {
  int k = 0;
  while (index >= axis.piece[k].end) k++;
  return axis.piece[k];
}

// Write a row of dst from `part` on. from: the address in src that corresponds to its first entry.
INLINE void place_row(const Placing& p, char* to, const char* from, i64 part) {
  const Axis& along = p.axis[0];
  const i64 end = least(along.size, (part + 1) * p.part);
  i64 at = part * p.part;
  for (int k = 0; at < end; k++) {
    const Piece& piece = along.piece[k];
    const i64 until = least(end, piece.end), n = until - at;
    if (n <= 0) continue;
    char* here = to + at * along.to;
    const char* there = piece.is_value ? p.value : from + piece.from + at * piece.step;
    at = until;
    if (n == 1 && p.item == 4 && p.block == 4) {  // an edge
      *(word<4>*)here = *(const word<4>*)there;
    } else if (piece.is_value) {
      values(p, here, along.to, n);
    } else if (piece.step == p.block && along.to == p.block) {
      move_run(here, there, n * p.block);
    } else {
      entries(here, along.to, there, piece.step, n, p.block);
    }
  }
}

// The addresses of the rows of an index of the outer axes.
struct Rows { char* to; const char* from; bool is_value; };

static Rows rows_at(const Placing& p, const i64* index) {
  Rows rows = {p.at.to, p.at.from, false};
  for (int d = 2; d < p.n; d++) {
    const Piece& piece = piece_of(p.axis[d], index[d]);
    rows.to += index[d] * p.axis[d].to, rows.from += piece.from + index[d] * piece.step;
    rows.is_value = rows.is_value || piece.is_value;
  }
  return rows;
}

static void place_units(const Placing& p, i64 first, i64 last) {
  const Axis &along = p.axis[0], &down = p.axis[1];  // without another axis, `down` has one entry
  i64 index[MOST_DIMS], rest = first / p.parts, part = first % p.parts;
  for (int d = 1; d < p.n; d++) index[d] = rest % p.axis[d].size, rest /= p.axis[d].size;
  if (p.n == 1) index[1] = 0;
  Rows rows = rows_at(p, index);
  for (i64 number = first; number < last; number++) {
    const Piece& piece = piece_of(down, index[1]);
    char* to = rows.to + index[1] * down.to;
    const char* from = rows.from + piece.from + index[1] * piece.step;
    if (rows.is_value || piece.is_value) {
      const i64 at = part * p.part, end = least(along.size, at + p.part);
      values(p, to + at * along.to, along.to, end - at);
    } else {
      place_row(p, to, from, part);
    }
    if (++part < p.parts) continue;
    part = 0;
    if (++index[1] < down.size) continue;
    index[1] = 0;
    for (int d = 2; d < p.n && ++index[d] == p.axis[d].size; d++) index[d] = 0;
    if (number + 1 < last) rows = rows_at(p, index);
  }
}

// True if a whole axis is one run of src. Then `from` is moved to its begin.
static bool is_whole(const Axis& axis, i64 block) {
  return axis.n == 1 && !axis.piece[0].is_value && axis.to == block && axis.piece[0].step == block;
}

static i64 place(const Call& call) {
  const Array &dst = call.array[0], &src = call.array[1], &value = call.array[2];
  if (dst.dtype < 0 || src.dtype != dst.dtype || value.dtype != dst.dtype || !dst.ndim ||
      dst.ndim != src.ndim || !value.size)
    return 1;
  Placing p;
  p.at = {dst.data, src.data}, p.value = value.data, p.item = p.block = dst.itemsize, p.n = 0;
  const i64 *next = call.integer, *end = next + call.n_ints;
  for (int d = 0; d < dst.ndim; d++) {
    Axis axis = {dst.shape[d], dst.stride[d], src.stride[d], 0, {}};
    if (next == end || axis.to < 0) return 1;
    i64 n = *next++, to = 0;
    if (n > MOST_PIECES || end - next < 3 * n) return 1;
    for (; n; n--, next += 3) {
      const i64 size = next[0], begin = next[1], step = next[2];
      if (!size) continue;
      const i64 last = begin + step * (size - 1);
      if (size < 0 || (begin >= 0 && (begin >= src.shape[d] || last < 0 || last >= src.shape[d])))
        return 1;
      axis.piece[axis.n++] = {to + size, (begin - step * to) * axis.from, step * axis.from,
                              begin < 0};
      to += size;
    }
    if (to != axis.size) return 1;
    int k = p.n++;
    for (; k > 0 && p.axis[k - 1].to > axis.to; k--) p.axis[k] = p.axis[k - 1];
    p.axis[k] = axis;
  }
  if (!dst.size) return 0;
  int taken = 0;
  for (; taken < p.n - 1 && is_whole(p.axis[taken], p.block); taken++) {
    if (p.block * p.axis[taken].size > BLOCK_BYTES) break;
    p.at.from += p.axis[taken].piece[0].from, p.block *= p.axis[taken].size;
  }
  p.n -= taken;
  for (int d = 0; d < p.n; d++) p.axis[d] = p.axis[d + taken];
  int outer = p.n > 1 ? 2 : 1;  // other axes that are contiguous are merged
  for (int d = 2; d < p.n; d++) {
    Axis &axis = p.axis[d], &last = p.axis[outer - 1];
    Piece &piece = axis.piece[0], &before = last.piece[0];
    if (axis.n > 1 || last.n > 1 || piece.is_value || before.is_value ||
        axis.to != last.to * last.size || piece.step != before.step * last.size) {
      p.axis[outer++] = axis;
      continue;
    }
    before.from += piece.from;
    last.size = before.end = last.size * axis.size;
  }
  p.n = outer;
  if (p.n == 1) p.axis[1] = {1, 0, 0, 1, {{1, 0, 0, false}}};
  const Axis& along = p.axis[0];
  p.part = least(along.size, PIECE_BYTES / p.block < 1 ? 1 : PIECE_BYTES / p.block);
  p.parts = (along.size + p.part - 1) / p.part, p.units = p.parts;
  for (int d = 1; d < p.n; d++) p.units *= p.axis[d].size;
  const i64 nbytes = dst.size * p.item;
  if (nbytes < PARALLEL_PIECES) {
    place_units(p, 0, p.units);
  } else {
    const i64 of_unit = p.part * p.block, piece = least(nbytes / 8, PIECE_BYTES);
    call.share(as_body(place_units), &p, p.units, of_unit < piece ? piece / of_unit : 1);
  }
  return 0;
}

// --- join ---------------------------------------------------------------------------------------

struct Joining {
  char* to;
  int n;
  i64 row, nbytes;  // bytes of the runs of all sources together; of dst
  struct { const char* from; i64 run, end; } source[32];
};

static void join_units(const Joining& j, i64 first, i64 last) {
  i64 at = first * PIECE_BYTES;
  const i64 end = least(last * PIECE_BYTES, j.nbytes);
  i64 row = at / j.row, column = at % j.row;
  int k = 0;
  while (column >= j.source[k].end) k++;
  while (at < end) {
    const auto& source = j.source[k];
    const i64 within = column - (source.end - source.run), n = least(source.end - column, end - at);
    memcpy(j.to + at, source.from + row * source.run + within, n);
    at += n, column += n;
    while (k < j.n && column >= j.source[k].end) k++;
    if (k == j.n) k = 0, column = 0, row++;
  }
}

// Sources with runs of one word each: the sources are planes, and dst has pixels.
template <int ITEM> static void join_pixels(const Joining& j, i64 first, i64 last) {
  const i64 rows = PIECE_BYTES / j.row, begin = first * rows;
  const i64 n = least(last * rows, j.nbytes / j.row) - begin;
  const char* planes[32];
  for (int k = 0; k < j.n; k++) planes[k] = j.source[k].from + begin * ITEM;
  char* const to = j.to + begin * j.row;
  if (j.n == 2) return into_pixels<ITEM, 2>(to, planes, n);
  if (j.n == 3) return into_pixels<ITEM, 3>(to, planes, n);
  if (j.n == 4) return into_pixels<ITEM, 4>(to, planes, n);
  // some rows at a time, which stay in the first-level cache while all planes write to them
  const i64 some = 8192 / j.row;
  for (i64 i = 0; i < n; i += some)
    for (int k = 0; k < j.n; k++) {
      const word<ITEM>* const plane = (const word<ITEM>*)planes[k];
      for (i64 row = i; row < least(i + some, n); row++)
        ((word<ITEM>*)to)[row * j.n + k] = plane[row];
    }
}

// The function for sources with runs of one word each, or null.
static abi::Body pixels_of(const Joining& j) {
  if (j.n < 2) return nullptr;
  const i64 item = j.source[0].run;
  for (int k = 1; k < j.n; k++)
    if (j.source[k].run != item) return nullptr;
  switch (item) {
    case 1: return as_body(join_pixels<1>);
    case 2: return as_body(join_pixels<2>);
    case 4: return as_body(join_pixels<4>);
    case 8: return as_body(join_pixels<8>);
    case 16: return as_body(join_pixels<16>);
    default: return nullptr;
  }
}

// The bytes of a run along `dim` and the dimensions inside it, if the array is dense and has the
// same order of dimensions as `like`; otherwise 0.
static i64 run_of(const Array& x, const Array& like, int dim) {
  bool is_done[MOST_DIMS] = {false};
  i64 dense = x.itemsize, run = 0;
  for (int taken = 0; taken < x.ndim; taken++) {
    int next = -1;
    for (int d = 0; d < x.ndim; d++) {
      if (is_done[d]) continue;
      if (next < 0 || like.stride[d] < like.stride[next] ||
          (like.stride[d] == like.stride[next] && like.shape[d] == 1))
        next = d;
    }
    is_done[next] = true;
    if (x.shape[next] != 1 && x.stride[next] != dense) return 0;
    dense *= x.shape[next];
    if (next == dim) run = dense;
  }
  return run;
}

static i64 join(const Call& call) {
  const Array& dst = call.array[0];
  const int dim = (int)call.integer[0];
  if (dst.dtype < 0 || dim < 0 || dim >= dst.ndim || call.n_arrays > 33) return 1;
  Joining j;
  j.to = dst.data, j.n = 0, j.row = run_of(dst, dst, dim), j.nbytes = dst.size * dst.itemsize;
  if (!j.row) return 1;
  i64 column = 0;
  for (int k = 1; k < call.n_arrays; k++) {
    const Array& x = call.array[k];
    if (x.dtype != dst.dtype || x.ndim != dst.ndim) return 1;
    for (int d = 0; d < x.ndim; d++)
      if (d != dim && x.shape[d] != dst.shape[d]) return 1;
    if (!x.size) continue;
    const i64 run = run_of(x, dst, dim);
    if (!run) return 1;
    column += run;
    j.source[j.n++] = {x.data, run, column};
  }
  if (column != j.row) return 1;
  const abi::Body pixels = pixels_of(j), body = pixels ? pixels : as_body(join_units);
  const i64 unit = pixels ? PIECE_BYTES / j.row * j.row : PIECE_BYTES;
  const i64 units = (j.nbytes + unit - 1) / unit;
  if (j.nbytes < PARALLEL_PIECES) {
    body(&j, 0, units);
  } else {
    call.share(body, &j, units, 1);
  }
  return 0;
}

}  // namespace copies

static const abi::FunctionEntry functions[] = {{"place", copies::place}, {"join", copies::join}};
extern const abi::Family copy_pieces = {"copy_pieces", functions};

}  // namespace CAPABILITY
