// The gradient of a convolution's weights: sums over windows of products of x and the result's
// gradient. Windows are read as in conv_pixels.h. The rows of a tile are taps of channels of x.
//
// Order    over LENGTH windows at a time, chosen by sizes alone; their sums are added.
#ifndef GPUTENSOR_CONV_GRADIENT
#define GPUTENSOR_CONV_GRADIENT

#include "conv_depthwise.h"
#include "conv_pixels.h"

namespace CAPABILITY {

namespace {

constexpr i64 LENGTH = 96;  // windows in one partial sum of a gradient
// Packing gradients takes longer than multiplying them with few rows. Then units are divided into
// up to SETS sets, whose sums are added, and a thread packs only the gradients of its set.
constexpr i64 FEW_ROWS = 160, FEW_WEIGHTS = 1 << 14, SETS = 8;

// Some rows, their channels, some blocks of the result's channels and some units of one group.
struct Part {
  i64 group, low, high, channel, channels, first_block, last_block, first_unit, last_unit;

  i64 rows() const { return high - low + MORE_PIXELS; }  // with those that complete a tile
  i64 blocks() const { return last_block - first_block; }
};

template <class T> struct Gradient {
  Products<T> p;
  const Array *grad, *out;
  Pixels pixels;
  // true if the channels of x are adjacent: then rows are ordered by tap, then by channel
  bool are_beside;
  i64 rows, sets, parts;

  i64 first_channel(const Part& part, i64 block) const {
    return part.group * p.outer + (part.first_block + block) * BLOCK<T>;
  }
  i64 channels_of(const Part& part, i64 block) const {
    return smaller(BLOCK<T>, p.outer - (part.first_block + block) * BLOCK<T>);
  }
  i64 tap(i64 row) const { return are_beside ? row / p.inner : row % p.of.taps(); }
  i64 channel(i64 row) const { return are_beside ? row % p.inner : row / p.of.taps(); }
};

// The windows of a unit depend on sizes alone.
template <class T> Pixels pixels_of(const Gradient<T>& g) {
  const Products<T>& p = g.p;
  Pixels b = pixels_of_sizes(p);
  const i64 size = sizeof(T);
  const auto bytes = [&] {
    lay_out_copy(p, b);
    return b.samples * p.inner * p.of.along[0].taps * b.size[0] * b.size[1] * size;
  };
  while (!b.reads_x && bytes() > 2 * FAR && halve(p, b)) {}
  b.units = units_of(p, b);
  return b;
}

// to[window][BLOCK]: the gradients of the windows of some runs, for channels of the result from
// `channel` on.
template <class T>
void pack_gradients(const Array& grad, i64 channel, i64 count, const Run* runs, i64 n_runs, T* to) {
  const i64 size = sizeof(T);
  for (i64 r = 0; r < n_runs; ++r) {
    const Run& run = runs[r];
    const char* from = grad.data + run.sample * grad.stride[0] + channel * grad.stride[1];
    for (int d = 0; d < 3; ++d) from += run.at[d] * grad.stride[d + 2];
    T* row = to + run.column * BLOCK<T>;
    if (grad.stride[1] == size) {
      for (i64 k = 0; k < run.length; ++k)
        copy_line(row + k * BLOCK<T>, (const T*)(from + k * grad.stride[4]), count);
    } else if (grad.stride[4] == size) {
      turn<T>((char*)row, BLOCK<T> * size, from, grad.stride[1], count, run.length);
    } else {
      for (i64 j = 0; j < count; ++j)
        for (i64 k = 0; k < run.length; ++k)
          row[k * BLOCK<T> + j] = *(const T*)(from + j * grad.stride[1] + k * grad.stride[4]);
    }
  }
}

// Write sums[block][row][BLOCK], rows of adjacent elements together.
template <class T> void put_sums(const Gradient<T>& g, const Part& part, const T* sums) {
  const Axis* along = g.p.of.along;
  const Array& out = *g.out;
  const auto place_of = [&](i64 row) {
    const i64 tap = g.tap(row), c = tap % along[2].taps, rest = tap / along[2].taps;
    return out.data + g.channel(row) * out.stride[1] + rest / along[1].taps * out.stride[2] +
           rest % along[1].taps * out.stride[3] + c * out.stride[4];
  };
  for (i64 row = part.low, n; row < part.high; row += n) {
    char* to = place_of(row);
    for (n = 1; row + n < part.high && place_of(row + n) == to + n * (i64)sizeof(T); ++n) {}
    for (i64 block = 0; block < part.blocks(); ++block)
      turn<T>(to + g.first_channel(part, block) * out.stride[0], out.stride[0],
              (const char*)(sums + (block * part.rows() + row - part.low) * BLOCK<T>),
              BLOCK<T> * sizeof(T), n, g.channels_of(part, block));
  }
}

// sums[block][row][BLOCK]: the sums over the part's units.
template <class T> void gradients_of(Gradient<T>& g, const Part& part, T* sums) {
  // The part's channels are a group of their own.
  Array x = *g.p.x;
  x.data += (part.group * g.p.inner + part.channel) * x.stride[1];
  Products<T> p = g.p;
  p.x = &x, p.inner = part.channels, p.groups = 1;
  Pixels b = g.pixels;
  if (!b.reads_x) lay_out_copy(p, b);
  const i64 taps = p.of.taps(), n_places = b.samples * b.rows * b.columns + MORE_PIXELS;
  const i64 copied = b.reads_x ? 0 : b.samples * b.steps.sample;
  Room room(Room::bytes_of<T>(copied) + Room::bytes_of<T>(part.blocks() * n_places * BLOCK<T>) +
            Room::bytes_of<i64>(taps) + Room::bytes_of<i64>(n_places) +
            Room::bytes_of<i64>(part.rows()) + Room::bytes_of<Run>(b.samples * b.rows));
  if (!room) return note(&g.p.answer, NO_MEMORY);
  T *copy = room.take<T>(copied), *grads = room.take<T>(part.blocks() * n_places * BLOCK<T>);
  i64 *offsets = room.take<i64>(taps), *places = room.take<i64>(n_places);
  i64* rows = room.take<i64>(part.rows());
  Run* runs = room.take<Run>(b.samples * b.rows);
  memset(sums, 0, part.blocks() * part.rows() * BLOCK<T> * sizeof(T));
  for (i64 block = 0; block < part.blocks(); ++block)  // lanes without a channel
    if (g.channels_of(part, block) % wide<T>::LANES)
      memset(grads + block * n_places * BLOCK<T>, 0, n_places * BLOCK<T> * sizeof(T));
  offsets_of(p, b, 1, offsets);
  for (i64 i = 0; i < part.rows(); ++i) {  // the last tile repeats the last row
    const i64 row = smaller(part.low + i, part.high - 1);
    rows[i] = (g.channel(row) - part.channel) * b.steps.channel + offsets[g.tap(row)];
  }
  for (i64 unit = part.first_unit; unit < part.last_unit; ++unit) {
    const Unit u = unit_of(p, b, unit);
    const i64 count = places_of(b, u, runs, places);
    for (i64 s = 0; !b.reads_x && s < u.samples; ++s)
      copy_rows(p, b, u, s, copy + s * b.steps.sample);
    for (i64 block = 0; block < part.blocks(); ++block)
      pack_gradients(*g.grad, g.first_channel(part, block), g.channels_of(part, block), runs,
                     u.samples * u.rows, grads + block * n_places * BLOCK<T>);
    const T* source = b.reads_x ? element_of(p, b, u) : copy;
    for (i64 window = 0; window < count; window += LENGTH) {
      const i64 length = smaller(LENGTH, count - window);
      for (i64 block = 0; block < part.blocks(); ++block) {
        const Tile<T> tile = tile_of<T>(g.channels_of(part, block));
        for (i64 row = 0; row < part.high - part.low; row += tile.pixels) {
          const T* from[MORE_PIXELS];
          for (int i = 0; i < MORE_PIXELS; ++i) from[i] = source + rows[row + i];
          tile.multiply(from, places + window, length,
                        grads + (block * n_places + window) * BLOCK<T>,
                        sums + (block * part.rows() + row) * BLOCK<T>, Sums::ADDED);
        }
      }
    }
  }
}

// Part `number` of the parts of a group: by sets of units, by rows, or by blocks if each row is
// read for many.
template <class T> Part part_of(const Gradient<T>& g, i64 number) {
  const Products<T>& p = g.p;
  const i64 n = number % g.parts, tiles = (g.rows + PIXELS - 1) / PIXELS, units = g.pixels.units;
  Part part = {number / g.parts, 0, g.rows, 0, p.inner, 0, p.blocks, 0, units};
  if (g.sets > 1) {
    part.first_unit = units * n / g.parts, part.last_unit = units * (n + 1) / g.parts;
  } else if (p.blocks >= g.parts && p.outer > p.inner) {
    part.first_block = p.blocks * n / g.parts, part.last_block = p.blocks * (n + 1) / g.parts;
  } else {
    part.low = tiles * n / g.parts * PIXELS;
    part.high = smaller(tiles * (n + 1) / g.parts * PIXELS, g.rows);
    if (part.low < part.high && (!g.are_beside || g.tap(part.low) == g.tap(part.high - 1))) {
      part.channel = g.channel(part.low);
      part.channels = g.channel(part.high - 1) - part.channel + 1;
    }
  }
  return part;
}

// The sums of each set, which are then added.
template <class T> void add_sets(const Call& call, Gradient<T>& g, i64 work) {
  const i64 size = g.p.blocks * (g.rows + MORE_PIXELS) * BLOCK<T>;
  Room room(Room::bytes_of<T>(g.p.groups * g.sets * size));
  if (!room) return note(&g.p.answer, NO_MEMORY);
  T* sums = room.take<T>(g.p.groups * g.sets * size);
  over(call, true, g.p.groups * g.sets, work, [&](i64 first, i64 last) {
    for (i64 number = first; number < last; ++number)
      gradients_of(g, part_of(g, number), sums + number * size);
  });
  if (g.p.answer) return;
  for (i64 group = 0; group < g.p.groups; ++group, sums += g.sets * size) {
    for (i64 set = 1; set < g.sets; ++set)
      for (i64 k = 0; k < size; ++k) sums[k] += sums[set * size + k];
    put_sums(g, part_of(g, group * g.sets), sums);
  }
}

template <class T> i64 weight_gradient(const Call& call) {
  const Array &x = call.array[0], &grad = call.array[1], &out = call.array[2];
  for (int k = 0; k < 3; ++k)
    if (call.array[k].dtype != code_of<T>) return 1;
  const i64 *n = call.integer, groups = n[9];
  const i64 kernels = out.shape[2] + out.shape[3] + out.shape[4];
  Room room(Room::bytes_of<i64>(2 * kernels));
  if (!room) return NO_MEMORY;
  i64* list = room.take<i64>(2 * kernels);
  Gradient<T> g = {};
  Products<T>& p = g.p;
  g.grad = &grad, g.out = &out, g.are_beside = are_side_by_side(x);
  p.x = &x, p.outer = grad.shape[1] / groups, p.inner = x.shape[1] / groups, p.groups = groups;
  p.of.samples = x.shape[0];
  for (int d = 0; d < 3; ++d) {
    axes_of(&p.of.along[d], 0, list, x.shape[d + 2], grad.shape[d + 2], out.shape[d + 2], n[d],
            n[d + 3], n[d + 6], false);
    list += 2 * out.shape[d + 2];
  }
  if (p.inner == 1 && p.outer <= 2) return each_gradient<T>(call, p.of, x, grad, out, p.outer);
  g.rows = p.inner * p.of.taps(), p.blocks = (p.outer + BLOCK<T> - 1) / BLOCK<T>;
  g.pixels = pixels_of(g);
  const bool has_sets = g.rows <= FEW_ROWS && g.rows * p.outer <= FEW_WEIGHTS;
  g.sets = has_sets ? larger(1, smaller(g.pixels.units, SETS / groups)) : 1;
  g.parts = g.sets > 1 ? g.sets : groups >= call.threads ? 1 : (call.threads - 1) / groups + 1;
  const i64 work = g.rows * p.of.columns() / g.parts;
  if (g.sets > 1) {
    add_sets(call, g, work);
    return p.answer;
  }
  over(call, true, groups * g.parts, work, [&](i64 first, i64 last) {
    for (i64 number = first; number < last; ++number) {
      const Part part = part_of(g, number);
      if (part.low >= part.high) continue;
      Room room(Room::bytes_of<T>(part.blocks() * part.rows() * BLOCK<T>));
      if (!room) return note(&p.answer, NO_MEMORY);
      T* sums = room.take<T>(part.blocks() * part.rows() * BLOCK<T>);
      gradients_of(g, part, sums);
      if (!p.answer) put_sums(g, part, sums);
    }
  });
  return p.answer;
}

}  // namespace

}  // namespace CAPABILITY

#endif
