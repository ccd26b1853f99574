// Block programs: the layout of blocks, and the iteration over them. See program.h.
#include "block.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "threads.h"

namespace engine {
namespace {

using abi::Scalar;

// Bytes of the temporaries of one block: half of a first-level cache.
constexpr i64 TEMPORARY_BYTES = 16 << 10;
// Elements of a block without temporaries, and the number of elements from which a second thread is
// used.
constexpr i64 BLOCK = 1 << 13, GRAIN = 1 << 15;
// Blocks of several rows are longer by this factor if the operands are not near, because a function
// takes longer to begin than a loop.
constexpr i64 OF_ROWS = 4;

// Bytes of an output from which on it is written past the caches: none of it would be there when it
// is read. That saves the load of each line before it is written. Not by rows, whose outputs are
// written in bursts after the other steps: layer norm would take 1.1 times as long.
constexpr i64 STREAMED = 8 << 20;

// Operands of at most these bytes in all are not prefetched: they may be in a cache.
constexpr i64 NEAR = 1 << 23;

i64 size_of(i64 x) { return x < 0 ? -x : x; }

void lay_out(Plan& plan) {
  const Program& program = *plan.program;
  const Walk& walk = *plan.walk;
  const int n = program.n_operands;
  const i64 inner = walk.size[0];
  plan.has_rows = walk.ndim > 1 && (program.row ? program.has_groups : inner < SHORT);
  i64 temporaries = 0;
  plan.has_streams = false;
  i64 bytes = 0;
  for (int k = 0; k < n; k++) {
    const i64 item = program.itemsize[k], step = walk.stride[k][0];
    const bool may_be_one = k >= program.n_outputs || program.is_row[k];
    if (plan.has_rows) {
      const i64 next = walk.stride[k][1];
      plan.layout[k] = program.is_row[k] ? ONE
                       : step == item && next == item * inner ? DENSE
                       : may_be_one && step == 0 && next == 0 ? ONE : PACKED;
    } else {
      plan.layout[k] = step == item ? DENSE : may_be_one && step == 0 ? ONE : PACKED;
    }
    if (plan.layout[k] == DENSE) bytes += walk.numel * item;
    plan.stays[k] = false;
    plan.streams[k] = program.code && !program.row && k < program.n_outputs &&
                      plan.layout[k] == DENSE && walk.numel * item >= STREAMED;
    plan.has_streams |= plan.streams[k];
    if (plan.layout[k] == PACKED) {
      temporaries += item;
      if (plan.has_rows && may_be_one) {
        plan.stays[k] = true;
        for (int d = 1; d < walk.ndim; d++) plan.stays[k] = plan.stays[k] && walk.stride[k][d] == 0;
      }
    }
  }
  plan.is_near = bytes <= NEAR;
  for (int k = n + program.n_numbers; k < program.n_slots; k++)
    if (!program.is_local[k] && !program.is_row[k]) temporaries += program.itemsize[k];
  const i64 times = program.has_groups && !plan.is_near ? OF_ROWS : 1;
  i64 capacity = temporaries ? TEMPORARY_BYTES * times / temporaries & ~(i64)63 : BLOCK * times;
  if (capacity < 64) capacity = 64;
  if (capacity > BLOCK * times) capacity = BLOCK * times;
  if (program.row && !plan.has_rows) capacity = program.row;
  if (plan.has_rows) {
    plan.columns = inner;
    plan.rows = capacity / inner < 1 ? 1 : capacity / inner;
    if (plan.rows > walk.size[1]) plan.rows = walk.size[1];
    plan.blocks_inner = (walk.size[1] + plan.rows - 1) / plan.rows;
    plan.outer = 2;
    if (capacity < inner) capacity = inner;
  } else {
    plan.columns = inner < capacity ? inner : capacity;
    plan.rows = 1;
    plan.blocks_inner = (inner + plan.columns - 1) / plan.columns;
    plan.outer = 1;
  }
  plan.capacity = capacity;
  // An input that is dense along dimension 1, such as the channels of a pixel. Cache lines that one
  // block has read are used by the next block.
  plan.is_turned = false;
  for (int k = program.n_outputs; k < n && plan.outer == 1 && walk.ndim > 1; k++) {
    const i64 next = size_of(walk.stride[k][1]);
    if (plan.layout[k] == PACKED && next && next * walk.size[1] <= size_of(walk.stride[k][0]))
      plan.is_turned = true;
  }
  plan.blocks = plan.blocks_inner;
  for (int d = plan.outer; d < walk.ndim; d++) plan.blocks *= walk.size[d];
}

// The size of a slot: memory for packed operands and temporaries, and a tile for a single value. A
// thread's slots are on its stack (at most some MiB), so allocation cannot fail.
i64 bytes_of(const Plan& plan, int k) {
  const Program& program = *plan.program;
  const int n = program.n_operands;
  const bool is_number = k >= n && k < n + program.n_numbers;
  const bool is_of_machine = program.dtype[k] == abi::f32 || program.dtype[k] == abi::f64;
  const int tile = program.code && is_of_machine ? abi::GROUP_BYTES : 0;
  if (program.is_row[k]) return of_rows(plan, k) + (plan.has_rows ? 0 : tile);
  if (program.is_state[k]) return abi::STATE_BYTES;
  if (k < n ? plan.layout[k] == PACKED : !is_number) {
    if (program.is_local[k]) return program.has_calls ? abi::LOCAL_BYTES : abi::GROUP_BYTES;
    return rounded(plan.capacity * program.itemsize[k]);
  }
  return is_number || plan.layout[k] == ONE ? tile : 0;
}

void blocks(void* context, i64 first, i64 last) {
  const Plan& plan = *(const Plan*)context;
  const Program& program = *plan.program;
  const Walk& walk = *plan.walk;
  const int n = program.n_operands, first_temporary = n + program.n_numbers;

  Block block(plan);
  char** const slot = block.slot;
  char* packed[MOST_ARRAYS];
  i64 bytes = 0;
  for (int k = 0; k < program.n_slots; k++) bytes += bytes_of(plan, k);
  char* free = (char*)rounded((i64)__builtin_alloca(bytes + LINE));
  for (int k = 0; k < program.n_slots; k++) {
    const i64 own = bytes_of(plan, k);
    const bool is_memory = k < n ? plan.layout[k] == PACKED : k >= first_temporary;
    const i64 begin = program.is_row[k] ? of_rows(plan, k) : 0;
    block.tile[k] = (program.is_row[k] || !is_memory) && own > begin ? free + begin : nullptr;
    block.shown[k] = nullptr, block.is_nan[k] = false;
    if (k < n && is_memory) packed[k] = free;
    if (k >= first_temporary) slot[k] = free, block.step[k] = program.itemsize[k];
    free += own;
  }
  for (int k = n; k < first_temporary; k++) {
    slot[k] = (char*)&plan.numbers[k - n], block.step[k] = 0;
    block.repeat(k);
  }

  // The offset of the first block.
  const i64 beside = plan.is_turned ? walk.size[1] : 1;
  const i64 number = first / beside;
  i64 index[abi::MOST_DIMS], rest = number / plan.blocks_inner, inner = number % plan.blocks_inner;
  if (plan.is_turned) rest = rest * beside + first % beside;
  char* at[MOST_ARRAYS];
  for (int k = 0; k < n; k++) at[k] = walk.data[k];
  for (int d = plan.outer; d < walk.ndim; d++) {
    index[d] = rest % walk.size[d];
    rest /= walk.size[d];
    for (int k = 0; k < n; k++) at[k] += index[d] * walk.stride[k][d];
  }
  bool is_packed[MOST_ARRAYS] = {};

  for (i64 b = first; b < last; b++) {
    i64 rows = 1, columns;
    if (plan.has_rows) {
      const i64 begin = inner * plan.rows, left = walk.size[1] - begin;
      rows = left < plan.rows ? left : plan.rows, columns = plan.columns;
      for (int k = 0; k < n; k++) slot[k] = at[k] + begin * walk.stride[k][1];
    } else {
      const i64 begin = inner * plan.columns, left = walk.size[0] - begin;
      columns = left < plan.columns ? left : plan.columns;
      for (int k = 0; k < n; k++)
        slot[k] = at[k] + (program.is_row[k] ? inner * program.itemsize[k]
                                             : begin * walk.stride[k][0]);
    }
    const i64 m = block.m = rows * columns;
    block.rows = rows;
    char* strided[MOST_ARRAYS];
    for (int k = 0; k < n; k++) {
      const int item = program.itemsize[k];
      block.step[k] = plan.layout[k] == ONE ? 0 : item;
      if (plan.layout[k] == ONE && !program.is_row[k]) block.repeat(k);
      if (plan.layout[k] != PACKED) continue;
      strided[k] = slot[k];
      if (k >= program.n_outputs && !is_packed[k]) {
        const i64 row_step = plan.has_rows ? walk.stride[k][1] : 0;
        // packed operands that are kept have the rows of the largest block
        const i64 count = plan.stays[k] ? plan.rows : rows;
        program.capability->pack[log2_of(item)](packed[k], slot[k], columns, walk.stride[k][0],
                                                count, row_step);
        is_packed[k] = plan.stays[k];
      }
      slot[k] = packed[k];
    }
    Ahead ahead;
    ahead.parts = block.parts();
    const int d = plan.outer;
    const bool is_along = !plan.is_turned && inner + 1 < plan.blocks_inner,
               may_be_next = plan.is_turned || (!inner && d < walk.ndim),
               is_next = may_be_next && index[d] + 1 < walk.size[d];
    const bool prefetches = program.code && !plan.is_near && block.has_stages() && b + 1 < last;
    if (prefetches && (is_along || is_next)) {
      for (int k = 0; k < n; k++) {
        const i64 bytes = m * program.itemsize[k], step = is_along ? bytes : walk.stride[k][d];
        if (plan.layout[k] != DENSE || !step) continue;
        ahead.at[ahead.n] = slot[k] + step;
        ahead.lines[ahead.n++] = (bytes + LINE - 1) / LINE;
      }
    }
    block.run_steps(ahead);
    for (int k = 0; k < program.n_outputs; k++) {
      if (plan.layout[k] != PACKED) continue;
      program.capability->unpack[log2_of(program.itemsize[k])](
          packed[k], strided[k], columns, walk.stride[k][0], rows,
          plan.has_rows ? walk.stride[k][1] : 0);
    }
    const auto is_more = [&](int d) {
      const bool is_inside = ++index[d] < walk.size[d];
      const i64 steps = is_inside ? 1 : 1 - walk.size[d];
      for (int k = 0; k < n; k++) at[k] += steps * walk.stride[k][d];
      if (!is_inside) index[d] = 0;
      return is_inside;
    };
    if (plan.is_turned && is_more(1)) continue;
    if (++inner < plan.blocks_inner) continue;
    inner = 0;
    for (int d = plan.outer + plan.is_turned; d < walk.ndim && !is_more(d); d++) {}
  }
#if defined(__SSE2__)
  if (plan.has_streams) _mm_sfence();  // another thread may read what was written past the caches
#endif
}

}  // namespace

bool run(const Program& program, const Walk& walk, const Scalar* scalars, const Scalar* numbers,
         bool may_share) {
  Walk one;
  const Walk* walked = &walk;
  if (!walk.ndim) {  // a single element: dense in every operand
    one.ndim = 1, one.size[0] = 1;
    for (int k = 0; k < program.n_operands; k++) {
      one.data[k] = walk.data[k];
      one.stride[k][0] = program.is_wide[k] ? 0 : program.itemsize[k];
    }
    walked = &one;
  }
  Plan plan;
  plan.program = &program, plan.walk = walked, plan.scalars = scalars;
  plan.numbers = numbers, plan.has_failed = false;
  lay_out(plan);
  const i64 elements = plan.rows * plan.columns;
  if (walk.numel < 2 * GRAIN || !may_share) {
    blocks(&plan, 0, plan.blocks);
  } else {
    share(blocks, &plan, plan.blocks, (GRAIN / 2 + elements - 1) / elements);
  }
  clear_upper_halves();
  return !plan.has_failed;
}

}  // namespace engine
