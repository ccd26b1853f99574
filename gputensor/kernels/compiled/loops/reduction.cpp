// The iteration of a reduction: it passes parts of an array to leaves, and merges their results in
// a fixed order.
//
// Order    depends only on sizes and layout. If the fastest dimension is reduced, the pieces of an
//          output are runs of up to 16384 elements (2048 if they must be packed), in which a leaf
//          adds up blocks of 1024. If it is kept, pieces are 128 rows, added eight rows at a time.
//          Pieces merge in pairs, like the digits of a binary counter. The number of threads only
//          determines which thread reduces a piece.
// Layouts  elements that are not adjacent, or that are cast, are packed into the first-level cache;
//          short rows and columns are merged.
#include "reduction.h"

#include <stdlib.h>

namespace CAPABILITY {

int coalesce(Dim* dims, int n) {
  for (int d = 1; d < n; d++) {
    const Dim now = dims[d];
    int e = d;
    for (; e > 0 && speed_of(dims[e - 1]) > speed_of(now); e--) dims[e] = dims[e - 1];
    dims[e] = now;
  }
  int last = 0;
  for (int d = 1; d < n; d++) {
    Dim& to = dims[last];
    const Dim& from = dims[d];
    if (to.x * to.size == from.x && to.out * to.size == from.out &&
        to.beside * to.size == from.beside) {
      to.size *= from.size;
    } else {
      dims[++last] = from;
    }
  }
  return n ? last + 1 : 0;
}

namespace {

using abi::Array;

constexpr i64 CHUNK = 16384;            // elements of a piece of a run
constexpr i64 FEWEST_OF_ROW = 16;
constexpr i64 PACKED = 2048;            // elements that are packed at a time
constexpr i64 PACKED_BYTES = PACKED * 8;
constexpr i64 LONG_ROW = 512;           // rows from this length on are not merged
constexpr i64 PIECE_ROWS = 128;
constexpr i64 COLUMNS_BYTES = 4096;     // bytes of the accumulators of a block of columns
constexpr i64 NARROW = 64;              // with fewer columns, several rows are merged into one
constexpr i64 OUTPUTS = 256;            // outputs of one call of a leaf
constexpr i64 GRAIN = 1 << 15;          // from this number of elements on, a second thread is used
constexpr i64 MANY = 64;  // number of outputs, or blocks of columns, that is divided among threads
constexpr i64 MOST_PARTS = 256;         // number of parts of one output, if there are few outputs
constexpr int MOST_LEVELS = 48;
constexpr int MOST_ACC = 16;  // bytes of an accumulator

struct Plan {
  const Leaf* leaf;
  double number;
  const char* x;
  char *out, *param;
  int item, out_item;
  abi::Cast cast_in, cast_out;  // null if nothing is cast
  abi::Move pack, unpack, pack_param;
  int n_kept, n_reduced;
  Dim kept[abi::MOST_DIMS + 1], reduced[abi::MOST_DIMS + 1];  // the fastest first
  i64 outputs, count;           // count: elements per output
  i64 pieces;                   // of one output
  bool is_run;                  // one piece, which is one run
  bool is_direct;               // a leaf reads x directly
  // For runs: elements of a piece along reduced[0], its rows along reduced[1], and the number of
  // pieces per row.
  i64 chunk, group, chunks, groups;
  // For columns: a block's sizes along kept[0] and kept[1]; the number of rows that are merged into
  // one; rows of a run; all rows.
  i64 wide, high, fold, run, rows;
  i64 wide_parts, high_parts, blocks;
  // If there are few outputs, threads compute `parts` parts of one output, each of `per_part`
  // pieces. per_part is a power of two, so that parts merge in the order of their pieces.
  i64 parts, per_part;
  char* partial;
};

void unpack_outputs(const Plan& plan, char* to, const char* acc, i64 n, i64 step, i64 rows,
                    i64 row_step) {
  alignas(64) char cast[COLUMNS_BYTES * 16];
  if (plan.cast_out) {
    plan.cast_out(cast, acc, n * rows);
    acc = cast;
  }
  plan.unpack((char*)acc, to, n, step, rows, row_step);
}

// Merge the accumulators at level `at` of the counter. The last result is written to `into`.
struct Counter {
  const Leaf& leaf;
  i64 columns;
  char* level;  // MOST_LEVELS * columns accumulators
  i64 counted = 0;
  int depth = 0;

  i64 bytes() const { return columns * leaf.acc_size; }
  char* next() { return level + depth * bytes(); }
  void push() {  // the accumulators returned by next()
    ++depth;
    for (u64 bits = counted++; bits & 1; bits >>= 1) merge();
  }
  void merge() {
    --depth;
    leaf.merge(level + (depth - 1) * bytes(), level + depth * bytes(), columns);
  }
  char* found() {
    while (depth > 1) merge();
    return level;
  }
};

// --- where the fastest dimension is reduced -----------------------------------------------------

// The addresses of an output by its index, over the dimensions from `from` on. beside: its param.
Place place_of(const Plan& plan, i64 number, int from) {
  return place_of({plan.x, plan.out, plan.param}, plan.kept, plan.n_kept, from, number);
}

// Pack n elements of several rows into `buffer`, in the form that the leaf takes.
const char* packed(const Plan& plan, char* buffer, const char* x, i64 n, i64 step, i64 rows,
                   i64 row_step) {
  if (!plan.cast_in) {
    plan.pack(buffer, (char*)x, n, step, rows, row_step);
    return buffer;
  }
  const bool is_dense = step == plan.item && (rows == 1 || row_step == n * step);
  char* strided = buffer + PACKED_BYTES;
  if (!is_dense) plan.pack(strided, (char*)x, n, step, rows, row_step);
  plan.cast_in(buffer, is_dense ? x : strided, n * rows);
  return buffer;
}

void make_piece(const Plan& plan, char* acc, const char* x, i64 number, const char* param,
                char* buffer) {
  const Dim& run = plan.reduced[0];
  const i64 begin = number % plan.chunks * plan.chunk;
  i64 rest = number / plan.chunks, rows = 1, row_step = 0;
  x += begin * run.x;
  int d = 1;
  if (plan.group > 1) {
    const Dim& next = plan.reduced[1];
    const i64 first = rest % plan.groups * plan.group;
    rest /= plan.groups;
    rows = least(plan.group, next.size - first), row_step = next.x;
    x += first * next.x;
    d = 2;
  }
  for (; d < plan.n_reduced; d++) {
    x += rest % plan.reduced[d].size * plan.reduced[d].x;
    rest /= plan.reduced[d].size;
  }
  i64 n = least(plan.chunk, run.size - begin);
  if (!plan.is_direct || rows > 1) x = packed(plan, buffer, x, n, run.x, rows, row_step);
  plan.leaf->rows(acc, x, n * rows, 0, 1, param);
}

// Outputs with one piece each, along kept[0].
void whole_rows(const Plan& plan, i64 first, i64 last) {
  alignas(64) char buffer[3 * PACKED_BYTES], acc[OUTPUTS * MOST_ACC], params[OUTPUTS * 8];
  const Leaf& leaf = *plan.leaf;
  const Dim one = {1, 0, 0, 0}, &along = plan.n_kept ? plan.kept[0] : one;
  const Dim& run = plan.reduced[0];
  const i64 n = run.size, most = plan.is_direct ? OUTPUTS : least(PACKED / n, OUTPUTS);
  for (i64 k = first; k < last;) {
    const i64 place = k % along.size, rows = least(least(most, along.size - place), last - k);
    Place at = place_of(plan, k / along.size, 1);
    at.x += place * along.x, at.out += place * along.out;
    const char* param = nullptr;
    if (plan.param) {
      plan.pack_param(params, (char*)at.beside + place * along.beside, rows, along.beside, 1, 0);
      param = params;
    }
    if (plan.is_direct) {
      leaf.rows(acc, at.x, n, along.x, rows, param);
    } else {
      const char* x = packed(plan, buffer, at.x, n, run.x, rows, along.x);
      leaf.rows(acc, x, n, n * leaf.size, rows, param);
    }
    if (leaf.finish) leaf.finish(acc, rows, plan.number, param);
    unpack_outputs(plan, at.out, acc, rows, along.out, 1, 0);
    k += rows;
  }
}

// Reduce the pieces of one output from `first` on, and merge them.
char* make_pieces(const Plan& plan, const Place& at, i64 first, i64 last, char* level,
                  char* buffer) {
  Counter counter = {*plan.leaf, 1, level};
  for (i64 piece = first; piece < last; piece++) {
    make_piece(plan, counter.next(), at.x, piece, at.beside, buffer);
    counter.push();
  }
  return counter.found();
}

void end_row(const Plan& plan, const Place& at, char* acc) {
  if (plan.leaf->finish) plan.leaf->finish(acc, 1, plan.number, at.beside);
  unpack_outputs(plan, at.out, acc, 1, 0, 1, 0);
}

void rows_of_outputs(const Plan& plan, i64 first, i64 last) {
  if (plan.is_run) return whole_rows(plan, first, last);
  alignas(64) char buffer[3 * PACKED_BYTES], level[MOST_LEVELS * MOST_ACC];
  for (i64 k = first; k < last; k++) {
    const Place at = place_of(plan, k, 0);
    end_row(plan, at, make_pieces(plan, at, 0, plan.pieces, level, buffer));
  }
}

void parts_of_rows(const Plan& plan, i64 first, i64 last) {
  const int size = plan.leaf->acc_size;
  alignas(64) char buffer[3 * PACKED_BYTES], level[MOST_LEVELS * MOST_ACC];
  for (i64 k = first; k < last; k++) {
    const i64 begin = k % plan.parts * plan.per_part,
              end = least(begin + plan.per_part, plan.pieces);
    const Place at = place_of(plan, k / plan.parts, 0);
    memcpy(plan.partial + k * size, make_pieces(plan, at, begin, end, level, buffer), size);
  }
}

void merge_rows(const Plan& plan) {
  alignas(64) char level[MOST_LEVELS * MOST_ACC];
  const int size = plan.leaf->acc_size;
  for (i64 k = 0; k < plan.outputs; k++) {
    Counter counter = {*plan.leaf, 1, level};
    for (i64 part = 0; part < plan.parts; part++) {
      memcpy(counter.next(), plan.partial + (k * plan.parts + part) * size, size);
      counter.push();
    }
    end_row(plan, place_of(plan, k, 0), counter.found());
  }
}

void plan_rows(Plan& plan) {
  const i64 n = plan.reduced[0].size, rows = plan.count / n;
  plan.is_direct = !plan.cast_in && plan.reduced[0].x == plan.item;
  plan.group = plan.groups = 1;
  plan.chunk = plan.is_direct ? CHUNK : PACKED;
  if (rows > 1 && n < LONG_ROW) {
    plan.chunk = n;
    plan.group = PACKED / n;
    plan.groups = parts_of(plan.reduced[1].size, plan.group);
  }
  plan.chunks = parts_of(n, plan.chunk);
  plan.pieces = plan.chunks * plan.groups;
  for (int d = plan.group > 1 ? 2 : 1; d < plan.n_reduced; d++) plan.pieces *= plan.reduced[d].size;
  plan.is_run = plan.pieces == 1 && plan.n_reduced == 1;
}

// --- where the fastest dimension is kept --------------------------------------------------------

// A block of columns: its address, and its sizes along kept[0] and kept[1].
struct Block { Place at; i64 wide, high; };

Block block_of(const Plan& plan, i64 number) {
  const Dim& along = plan.kept[0];
  Block found;
  const i64 first = number % plan.wide_parts * plan.wide;
  number /= plan.wide_parts;
  found.wide = least(plan.wide, along.size - first), found.high = 1;
  i64 second = 0;
  if (plan.n_kept > 1) {
    second = number % plan.high_parts * plan.high;
    number /= plan.high_parts;
    found.high = least(plan.high, plan.kept[1].size - second);
  }
  found.at = place_of(plan, number, 2);
  found.at.x += first * along.x, found.at.out += first * along.out,
      found.at.beside += first * along.beside;
  if (plan.n_kept > 1) {
    const Dim& next = plan.kept[1];
    found.at.x += second * next.x, found.at.out += second * next.out,
        found.at.beside += second * next.beside;
  }
  return found;
}

// Buffers of one thread.
struct Columns {
  alignas(64) char params[COLUMNS_BYTES];
  alignas(64) char rows[EIGHT * COLUMNS_BYTES];
  alignas(64) char strided[4 * COLUMNS_BYTES];
};

const char* pack_params(const Plan& plan, const Block& block, Columns& memory) {
  if (!plan.param) return nullptr;
  const i64 next = plan.n_kept > 1 ? plan.kept[1].beside : 0;
  const i64 n = block.wide * block.high, size = plan.leaf->acc_size;
  plan.pack_param(memory.params, (char*)block.at.beside, block.wide, plan.kept[0].beside,
                  block.high, next);
  for (i64 k = 1; k < plan.fold; k++) memcpy(memory.params + k * n * size, memory.params, n * size);
  return memory.params;
}

// Add the rows of a piece to acc.
void make_columns(const Plan& plan, char* acc, const Block& block, i64 piece, const char* param,
                  Columns& memory) {
  const Leaf& leaf = *plan.leaf;
  const Dim &along = plan.kept[0], &down = plan.reduced[0];
  // A row has `wide` elements, times its height or the number of merged rows.
  const i64 below = plan.fold > 1 ? down.x : plan.n_kept > 1 ? plan.kept[1].x : 0;
  const bool is_dense =
      along.x == plan.item && (plan.fold * block.high == 1 || below == block.wide * along.x);
  const i64 first = piece * PIECE_ROWS, last = least(first + PIECE_ROWS, plan.rows);
  i64 index[abi::MOST_DIMS + 1], rest = first / plan.run, at = first % plan.run;
  const char* x = block.at.x;
  for (int d = 1; d < plan.n_reduced; d++) {
    index[d] = rest % plan.reduced[d].size;
    rest /= plan.reduced[d].size;
    x += index[d] * plan.reduced[d].x;
  }
  leaf.clear(acc, block.wide * block.high * plan.fold);
  const char* row[EIGHT];
  int gathered = 0;
  for (i64 k = first; k < last; k++) {
    const char* from = x + at * plan.fold * down.x;
    const i64 fold = least(plan.fold, down.size - at * plan.fold), high = block.high * fold;
    const i64 n = block.wide * high;
    if (!is_dense || plan.cast_in) {
      char *to = memory.rows + gathered * COLUMNS_BYTES,
           *strided = plan.cast_in ? memory.strided : to;
      const bool is_packed = !is_dense;
      if (is_packed) plan.pack(strided, (char*)from, block.wide, along.x, high, below);
      if (plan.cast_in) plan.cast_in(to, is_packed ? strided : from, n);
      from = to;
    }
    if (fold < plan.fold) {
      const char* one[] = {from};
      leaf.columns(acc, one, 1, n, param);
    } else {
      row[gathered++] = from;
      if (gathered == EIGHT) {
        leaf.columns(acc, row, EIGHT, n, param);
        gathered = 0;
      }
    }
    if (++at < plan.run) continue;
    at = 0;
    for (int d = 1; d < plan.n_reduced; d++) {
      x += plan.reduced[d].x;
      if (++index[d] < plan.reduced[d].size) break;
      x -= plan.reduced[d].size * plan.reduced[d].x;
      index[d] = 0;
    }
  }
  for (int k = 0; k < gathered;) {
    const int count = gathered - k >= 4 ? 4 : 1;
    leaf.columns(acc, row + k, count, block.wide * block.high * plan.fold, param);
    k += count;
  }
}

void end_columns(const Plan& plan, const Block& block, char* acc, const char* param) {
  const Leaf& leaf = *plan.leaf;
  const i64 n = block.wide * block.high;
  for (i64 half = plan.fold / 2; half; half /= 2)
    leaf.merge(acc, acc + half * n * leaf.acc_size, half * n);
  if (leaf.finish) leaf.finish(acc, n, plan.number, param);
  const i64 next = plan.n_kept > 1 ? plan.kept[1].out : 0;
  unpack_outputs(plan, block.at.out, acc, block.wide, plan.kept[0].out, block.high, next);
}

// Memory for the accumulators of a counter of blocks.
i64 levels_of(const Plan& plan) {
  i64 levels = 2;
  while ((i64)1 << (levels - 2) < plan.pieces) levels++;
  return levels * COLUMNS_BYTES + 64;
}
char* aligned(void* memory) { return (char*)(((u64)memory + 63) & ~63ull); }

char* make_columns_of(const Plan& plan, const Block& block, i64 first, i64 last, const char* param,
                      char* level, Columns& memory) {
  Counter counter = {*plan.leaf, block.wide * block.high * plan.fold, level};
  for (i64 piece = first; piece < last; piece++) {
    make_columns(plan, counter.next(), block, piece, param, memory);
    counter.push();
  }
  return counter.found();
}

void blocks_of_columns(const Plan& plan, i64 first, i64 last) {
  Columns memory;
  char* level = aligned(__builtin_alloca(levels_of(plan)));
  for (i64 k = first; k < last; k++) {
    const Block block = block_of(plan, k);
    const char* param = pack_params(plan, block, memory);
    end_columns(plan, block, make_columns_of(plan, block, 0, plan.pieces, param, level, memory),
                param);
  }
}

// All blocks of a part, in memory order.
void parts_of_columns(const Plan& plan, i64 first, i64 last) {
  Columns memory;
  char* level = aligned(__builtin_alloca(levels_of(plan)));
  for (i64 k = first; k < last; k++) {
    const i64 begin = k / plan.blocks * plan.per_part,
              end = least(begin + plan.per_part, plan.pieces);
    const Block block = block_of(plan, k % plan.blocks);
    const char* param = pack_params(plan, block, memory);
    const char* acc = make_columns_of(plan, block, begin, end, param, level, memory);
    const i64 n = block.wide * block.high * plan.fold;
    memcpy(plan.partial + k * COLUMNS_BYTES, acc, n * plan.leaf->acc_size);
  }
}

void merge_columns(const Plan& plan, i64 first, i64 last) {
  Columns memory;
  char* level = aligned(__builtin_alloca(levels_of(plan)));
  for (i64 k = first; k < last; k++) {
    const Block block = block_of(plan, k);
    Counter counter = {*plan.leaf, block.wide * block.high * plan.fold, level};
    for (i64 part = 0; part < plan.parts; part++) {
      memcpy(counter.next(), plan.partial + (part * plan.blocks + k) * COLUMNS_BYTES,
             counter.bytes());
      counter.push();
    }
    end_columns(plan, block, counter.found(), pack_params(plan, block, memory));
  }
}

void plan_columns(Plan& plan) {
  const Dim &along = plan.kept[0], &down = plan.reduced[0];
  const int size = plan.leaf->size > plan.leaf->acc_size ? plan.leaf->size : plan.leaf->acc_size;
  const i64 most = COLUMNS_BYTES / size;
  plan.wide = least(along.size, most), plan.high = 1, plan.fold = 1;
  if (along.size < NARROW) {
    if (down.size >= NARROW) {
      while (plan.fold * 2 * along.size <= most / 2 && plan.fold * 2 <= down.size) plan.fold *= 2;
    } else if (plan.n_kept > 1) {
      plan.high = least(plan.kept[1].size, most / along.size);
    }
  }
  plan.run = parts_of(down.size, plan.fold);
  plan.rows = plan.count / down.size * plan.run;
  plan.pieces = parts_of(plan.rows, PIECE_ROWS);
  plan.wide_parts = parts_of(along.size, plan.wide);
  plan.high_parts = plan.n_kept > 1 ? parts_of(plan.kept[1].size, plan.high) : 1;
  plan.blocks = plan.wide_parts * plan.high_parts;
  for (int d = 2; d < plan.n_kept; d++) plan.blocks *= plan.kept[d].size;
}

// --- all ----------------------------------------------------------------------------------------

void fill_outputs(const Plan& plan, i64 first, i64 last) {
  for (i64 k = first; k < last; k++) {
    alignas(16) char acc[16] = {};
    const Place at = place_of(plan, k, 0);
    plan.leaf->clear(acc, 1);
    if (plan.leaf->finish) plan.leaf->finish(acc, 1, plan.number, at.beside);
    unpack_outputs(plan, at.out, acc, 1, 0, 1, 0);
  }
}

byte real_of_code(byte code) {
  return code == abi::c64 ? abi::f32 : code == abi::c128 ? abi::f64 : abi::f16;
}

}  // namespace

// One row, as passed by a program, is one call of a leaf.
static bool is_one_row(const Reduction& reduction, const Array& x, const Array& out, u64 reduced) {
  const Leaf& leaf = *reduction.leaf;
  return x.ndim == 2 && x.shape[0] == 1 && reduced == 2 && reduction.complex == AS_IT_IS &&
         x.dtype == leaf.type && out.dtype == leaf.acc && x.stride[1] == leaf.size &&
         x.shape[1] >= FEWEST_OF_ROW && x.shape[1] <= CHUNK;
}

i64 run_reduction(const Reduction& reduction, const Array& x, const Array& out, u64 reduced,
                  abi::Share share) {
  const Leaf& leaf = *reduction.leaf;
  if (is_one_row(reduction, x, out, reduced)) {
    const double n = (double)x.shape[1], number = reduction.number;
    const char* param = reduction.param ? reduction.param->data : nullptr;
    leaf.rows(out.data, x.data, x.shape[1], 0, 1, param);
    if (leaf.finish) leaf.finish(out.data, 1, number == number ? number : n, param);
    return 0;
  }
  Plan plan;
  plan.leaf = &leaf;
  plan.x = x.data, plan.out = out.data;
  plan.param = reduction.param ? reduction.param->data : nullptr;
  plan.item = x.itemsize, plan.out_item = out.itemsize;
  plan.outputs = plan.count = 1;
  plan.n_kept = plan.n_reduced = 0;
  byte given = (byte)x.dtype, made = (byte)out.dtype;
  if (reduction.complex != AS_IT_IS) {
    plan.item /= 2;
    given = real_of_code(given);
    Dim parts = {2, plan.item, 0, 0};
    if (reduction.complex == PARTS_KEPT) {
      plan.out_item /= 2;
      made = real_of_code(made);
      parts.out = plan.out_item;
      plan.kept[plan.n_kept++] = parts;
      plan.outputs = 2;
    } else {
      plan.reduced[plan.n_reduced++] = parts;
      plan.count = 2;
    }
  }
  const bool keeps_dims = out.ndim == x.ndim;
  for (int d = 0, k = 0; d < x.ndim; d++) {
    const bool is_reduced = reduced >> d & 1;
    const int at = keeps_dims ? d : k;
    (is_reduced ? plan.count : plan.outputs) *= x.shape[d];
    k += !is_reduced;
    if (x.shape[d] == 1) continue;
    if (is_reduced) {
      plan.reduced[plan.n_reduced++] = {x.shape[d], x.stride[d], 0, 0};
    } else {
      const i64 param = plan.param ? reduction.param->stride[at] : 0;
      plan.kept[plan.n_kept++] = {x.shape[d], x.stride[d], out.stride[at], param};
    }
  }
  if (!plan.outputs) return 0;
  plan.number = reduction.number == reduction.number ? reduction.number : (double)plan.count;
  plan.cast_in =
      given == leaf.type || leaf.type == abi::N_DTYPES ? nullptr : casts[given][leaf.type];
  plan.cast_out = made == leaf.acc ? nullptr : casts[leaf.acc][made];
  plan.pack = packs[log2_of(plan.item)], plan.unpack = unpacks[log2_of(plan.out_item)];
  plan.pack_param = packs[log2_of(leaf.acc_size)];
  plan.partial = nullptr;
  if (!plan.count) {
    fill_outputs(plan, 0, plan.outputs);
    return 0;
  }
  if (plan.n_kept > 1) plan.n_kept = coalesce(plan.kept, plan.n_kept);
  if (plan.n_reduced > 1) plan.n_reduced = coalesce(plan.reduced, plan.n_reduced);
  if (!plan.n_reduced) plan.reduced[plan.n_reduced++] = {1, plan.item, 0, 0};
  const i64 size = plan.count * plan.outputs;
  const bool has_rows = !plan.n_kept || speed_of(plan.reduced[0]) <= speed_of(plan.kept[0]);
  i64 units;
  if (has_rows) {
    plan_rows(plan);
    if (size < 2 * GRAIN) {
      rows_of_outputs(plan, 0, plan.outputs);
      return 0;
    }
    units = plan.outputs;
  } else {
    plan_columns(plan);
    if (size < 2 * GRAIN) {
      blocks_of_columns(plan, 0, plan.blocks);
      return 0;
    }
    units = plan.blocks;
  }
  if (plan.pieces == 1 || units >= MANY) {
    share(has_rows ? as_body(rows_of_outputs) : as_body(blocks_of_columns), &plan, units,
          parts_of(GRAIN / 2, size / units));
    return 0;
  }
  plan.per_part = 1;
  while (parts_of(plan.pieces, plan.per_part) > MOST_PARTS) plan.per_part *= 2;
  plan.parts = parts_of(plan.pieces, plan.per_part);
  const i64 parts = units * plan.parts;
  plan.partial = (char*)malloc(parts * (has_rows ? leaf.acc_size : COLUMNS_BYTES));
  if (!plan.partial) return 1;
  share(has_rows ? as_body(parts_of_rows) : as_body(parts_of_columns), &plan, parts,
        parts_of(GRAIN / 2, size / parts));
  if (has_rows) {
    merge_rows(plan);
  } else {
    share(as_body(merge_columns), &plan, units, parts_of(64, plan.parts));
  }
  free(plan.partial);
  return 0;
}

}  // namespace CAPABILITY
