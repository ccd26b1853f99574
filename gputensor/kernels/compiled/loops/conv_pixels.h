// Convolutions to many channels. A tile has PIXELS windows and BLOCK channels of the result, or
// MORE_PIXELS windows and fewer channels: each element of a window is broadcast, and multiplied
// with the weights of all channels of the tile. So windows may be anywhere, and a tile may have
// windows of several rows and samples. They read x itself, or a copy of some rows of all channels
// that includes the padding.
//
// Order    as in conv.cpp, with the same bits.
#ifndef GPUTENSOR_CONV_PIXELS
#define GPUTENSOR_CONV_PIXELS

#include "conv_direct.h"

namespace CAPABILITY {

namespace {

constexpr int PIXELS = 6, MORE_PIXELS = 8;                             // windows of a tile
template <class T> constexpr int ACROSS = wide<T>::ROWS == 4 ? 2 : 4;  // registers of a window
template <class T> constexpr int BLOCK = wide<T>::LANES * ACROSS<T>;   // channels of a tile
constexpr i64 CHUNK = 24 << 10;     // bytes of weights that are used for one tile after another
constexpr i64 MOST_PIXELS = 512;    // windows whose sums stay in the second-level cache
constexpr i64 LEAST_PIXELS = 48;
constexpr i64 FAR = 1 << 20;        // bytes of a copy
constexpr i64 LINE = 64;            // bytes of a cache line
constexpr double PACKING = 38;      // windows that take as long as packing the weights of a block

// The distance of elements that are read, in elements. `row` and `column` are those of windows.
struct Steps { i64 sample, channel, row, column; };

// The windows of a unit of work: `columns` windows of `rows` rows of some samples.
struct Pixels {
  i64 samples, rows, columns;
  i64 bands, across, units, parts;  // units in a height, in a width, all; parts of the blocks
  bool reads_x, is_beside;    // whether x is read itself; whether a copy has adjacent channels
  i64 low[2], size[2];        // of a copy along h and w: the first element and the number of them
  i64 apart;                  // elements of a copy from one column to the next
  Steps steps;
};

// Whether all taps of all windows are inside.
static inline bool is_inside(const Axis& axis) {
  for (i64 t = 0; t < axis.taps; ++t)
    if (axis.offset[t] < 0 || (axis.count - 1) * axis.step + axis.offset[t] >= axis.size)
      return false;
  return true;
}

// The elements of a copy for `count` windows along a dimension. With a single tap, it has only the
// elements that are read.
static inline i64 extent(const Axis& axis, i64 count, i64* low) {
  if (!axis.taps) return *low = 0;
  const i64 span = span_of(axis, low);
  return axis.taps == 1 ? count : (count - 1) * axis.step + span + 1;
}

template <class T> void lay_out_copy(const Products<T>& p, Pixels& b) {
  const Axis* along = p.of.along;
  b.size[0] = extent(along[1], b.rows, &b.low[0]);
  b.size[1] = extent(along[2], b.columns, &b.low[1]);
  const i64 step[2] = {along[1].taps == 1 ? 1 : along[1].step,
                       along[2].taps == 1 ? 1 : along[2].step};
  // An odd number of registers from one column or channel to the next, so that they do not share
  // sets of the cache.
  const auto odd = [](i64 n) {
    return ((n + wide<T>::LANES - 1) / wide<T>::LANES | 1) * wide<T>::LANES;
  };
  const i64 plane = along[0].taps * b.size[0] * b.size[1];
  b.apart = b.is_beside ? odd(p.inner) : 1;
  b.steps = {plane * b.apart, 1, step[0] * b.size[1] * b.apart, step[1] * b.apart};
  if (!b.is_beside) b.steps.channel = odd(plane), b.steps.sample = p.inner * b.steps.channel;
}

// Divide n into `count` parts of at most `most`.
static inline i64 part_of(i64 n, i64 most, i64* count) {
  *count = (n + larger(1, most) - 1) / larger(1, most);
  const i64 each = (n + *count - 1) / *count;
  *count = (n + each - 1) / each;
  return each;
}

template <class T> i64 units_of(const Products<T>& p, const Pixels& b) {
  return (p.of.samples + b.samples - 1) / b.samples * p.of.along[0].count * b.bands * b.across;
}

// The time of all units in windows of one block, with the best number of parts of the blocks.
template <class T> double time_of(const Products<T>& p, Pixels& b, i64 threads) {
  const Axis* along = p.of.along;
  const i64 windows = b.samples * b.rows * b.columns, taps = larger(1, p.of.taps());
  const i64 padded = (windows + PIXELS - 1) / PIXELS * PIXELS;
  b.units = units_of(p, b);
  double copy = 0, best = 0;
  if (!b.reads_x) {
    lay_out_copy(p, b);
    copy = (double)b.samples * along[0].taps * b.size[0] * b.size[1] / 2 / taps;
  }
  for (i64 parts = 1; parts <= smaller(p.blocks, 4 * threads); ++parts) {
    const i64 blocks = (p.blocks + parts - 1) / parts, units = b.units * p.groups;
    const i64 rounds = (units * parts + threads - 1) / threads;
    const double time = rounds * (blocks * (padded + (b.units == 1 ? PACKING : 0)) + copy);
    if (parts == 1 || time < best) best = time, b.parts = parts;
  }
  return best + (b.units == 1 ? 0 : p.blocks * p.groups * PACKING / threads);
}

// Divide a unit into two. False if it is small.
template <class T> bool halve(const Products<T>& p, Pixels& b) {
  const Axis* along = p.of.along;
  if (b.samples * b.rows * b.columns < 2 * LEAST_PIXELS) return false;
  if (b.samples > 1)
    b.samples = (b.samples + 1) / 2;
  else if (b.rows > 1)
    b.rows = part_of(along[1].count, (b.rows + 1) / 2, &b.bands);
  else
    b.columns = part_of(along[2].count, (b.columns + 1) / 2, &b.across);
  return true;
}

// Units of up to MOST_PIXELS windows.
template <class T> Pixels pixels_of_sizes(const Products<T>& p) {
  const Axis* along = p.of.along;
  const Array& x = *p.x;
  const i64 size = sizeof(T), width = along[2].count, height = along[1].count;
  Pixels b = {};
  b.is_beside = x.stride[1] == size;
  b.reads_x = (b.is_beside || p.of.taps() == 1) && is_inside(along[0]) && is_inside(along[1]) &&
              is_inside(along[2]);
  b.columns = part_of(width, MOST_PIXELS, &b.across);
  b.rows = part_of(height, larger(1, MOST_PIXELS / b.columns), &b.bands);
  const bool is_whole = b.rows == height && b.columns == width;
  b.samples = is_whole ? larger(1, smaller(p.of.samples, MOST_PIXELS / (width * height))) : 1;
  if (b.reads_x)
    b.steps = {x.stride[0] / size, x.stride[1] / size, along[1].step * x.stride[3] / size,
               along[2].step * x.stride[4] / size};
  return b;
}

template <class T> Pixels pixels_of(const Products<T>& p, i64 threads) {
  const i64 size = sizeof(T);
  Pixels b = pixels_of_sizes(p);
  if (!b.reads_x)
    for (lay_out_copy(p, b); b.samples * b.steps.sample * size > FAR && halve(p, b);)
      lay_out_copy(p, b);
  Pixels next = b;
  for (double best = time_of(p, b, threads); halve(p, next);) {
    const double time = time_of(p, next, threads);
    if (time < best) best = time, b = next;
  }
  return b;
}

// A unit: `rows` rows of `columns` windows of some samples, in plane `at` of the result.
struct Unit { i64 group, sample, samples, at, row, rows, column, columns; };

template <class T> Unit unit_of(const Products<T>& p, const Pixels& b, i64 number) {
  const Axis* along = p.of.along;
  Unit u;
  u.group = number % p.groups, number /= p.groups;
  u.row = number % b.bands * b.rows, number /= b.bands;
  u.column = number % b.across * b.columns, number /= b.across;
  u.at = number % along[0].count, u.sample = number / along[0].count * b.samples;
  u.samples = smaller(b.samples, p.of.samples - u.sample);
  u.rows = smaller(b.rows, along[1].count - u.row);
  u.columns = smaller(b.columns, along[2].count - u.column);
  return u;
}

// What becomes of sums: the first term of a sum, a sum that goes on, or a sum that is added to.
enum class Sums { FIRST, CONTINUED, ADDED };

// sums[i][BLOCK] = the sums over k < n of x[i][offsets[k]] * weights[k][BLOCK] for P windows, in V
// registers each.
template <class T, int P, int V>
static void tile_of_pixels(const T* const* x, const i64* offsets, i64 n, const T* weights, T* sums,
                           Sums how) {
  typedef wide<T> R;
  typename R::type sum[P][V];
  const T* from[P];
#pragma GCC unroll 8
  for (int i = 0; i < P; ++i) {
    from[i] = x[i];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const T* before = sums + i * BLOCK<T> + j * R::LANES;
      sum[i][j] = how == Sums::CONTINUED ? R::load(before) : R::zero();
    }
  }
  for (; n; --n, weights += BLOCK<T>) {
    const i64 at = *offsets++;
    typename R::type right[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) right[j] = R::load(weights + j * R::LANES);
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i) {
      const typename R::type left = R::all(from[i][at]);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] = R::fma(left, right[j], sum[i][j]);
    }
  }
  if (how == Sums::ADDED) {
    const typename R::type one = R::all(1);
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j)
        sum[i][j] = R::fma(R::load(sums + i * BLOCK<T> + j * R::LANES), one, sum[i][j]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) R::store(sums + i * BLOCK<T> + j * R::LANES, sum[i][j]);
}

template <class T> struct Tile {
  void (*multiply)(const T* const*, const i64*, i64, const T*, T*, Sums);
  i64 pixels;
};

// The tile for up to BLOCK channels.
template <class T> Tile<T> tile_of(i64 channels) {
  const i64 registers = (channels + wide<T>::LANES - 1) / wide<T>::LANES;
  if (registers == ACROSS<T>) return {tile_of_pixels<T, PIXELS, ACROSS<T>>, PIXELS};
  if (registers == 3) return {tile_of_pixels<T, MORE_PIXELS, 3>, MORE_PIXELS};
  if (registers == 2) return {tile_of_pixels<T, MORE_PIXELS, 2>, MORE_PIXELS};
  return {tile_of_pixels<T, MORE_PIXELS, 1>, MORE_PIXELS};
}

// to[n][apart]: the adjacent channels of elements `at` + k * step of a row of `size`, or zeros.
template <class T>
void copy_channels(T* to, i64 apart, const char* row, i64 at, i64 step, i64 size, i64 n, i64 stride,
                   i64 channels) {
  for (i64 k = 0; k < n; ++k, at += step, to += apart) {
    if (at < 0 || at >= size)
      clear_line(to, channels);
    else
      copy_line(to, (const T*)(row + at * stride), channels);
  }
}

// The elements that the windows of a unit read in one of its samples.
template <class T>
void copy_rows(const Products<T>& p, const Pixels& b, const Unit& u, i64 sample, T* to) {
  const Axis* along = p.of.along;
  const Array& x = *p.x;
  const i64 step[2] = {along[1].taps == 1 ? along[1].step : 1,
                       along[2].taps == 1 ? along[2].step : 1};
  const i64 top = u.row * along[1].step + b.low[0], left = u.column * along[2].step + b.low[1];
  for (i64 c = 0; c < (b.is_beside ? 1 : p.inner); ++c)
    for (i64 a = 0; a < along[0].taps; ++a)
      for (i64 y = 0; y < b.size[0]; ++y) {
        const i64 depth = u.at * along[0].step + along[0].offset[a], row = top + y * step[0];
        const bool is_padding = depth < 0 || depth >= along[0].size || row < 0 ||
                                row >= along[1].size;
        const i64 width = is_padding ? 0 : along[2].size, line = (a * b.size[0] + y) * b.size[1];
        const char* from = x.data + (u.sample + sample) * x.stride[0] +
                           (u.group * p.inner + c) * x.stride[1] +
                           (is_padding ? 0 : depth * x.stride[2] + row * x.stride[3]);
        if (b.is_beside)
          copy_channels(to + line * b.apart, b.apart, from, left, step[1], width, b.size[1],
                        x.stride[4], p.inner);
        else
          copy_part(to + c * b.steps.channel + line, from, left, step[1], width, b.size[1],
                    x.stride[4]);
      }
}

// The number of channels of a chunk. Adjacent channels are read by cache lines.
template <class T> i64 channels_of(const Products<T>& p, const Pixels& b) {
  const i64 most = larger(1, CHUNK / BLOCK<T> / (i64)sizeof(T) / larger(1, p.of.taps()));
  return b.is_beside && most > 4 ? (most + 7) / 8 * 8 : most;
}

// The offsets at which the taps of the first `channels` channels read, from a window's first
// element on.
template <class T>
void offsets_of(const Products<T>& p, const Pixels& b, i64 channels, i64* offsets) {
  const Axis* along = p.of.along;
  const i64 size = sizeof(T), *stride = p.x->stride;
  for (i64 c = 0; c < channels; ++c)
    for (i64 d = 0; d < along[0].taps; ++d)
      for (i64 h = 0; h < along[1].taps; ++h)
        for (i64 w = 0; w < along[2].taps; ++w) {
          const i64 z = along[0].offset[d], y = along[1].offset[h], x = along[2].offset[w];
          const i64 row = d * b.size[0] + y - b.low[0], column = x - b.low[1];
          *offsets++ = c * b.steps.channel +
                       (b.reads_x ? (z * stride[2] + y * stride[3] + x * stride[4]) / size
                                    : (row * b.size[1] + column) * b.apart);
        }
}

// Write the sums of windows [0, n) of a unit for some channels of the result.
template <class T>
void write_pixels(const Products<T>& p, T* sums, i64 channel, i64 channels, const Run* runs,
                  i64 n_runs) {
  const Array& out = *p.out;
  const i64 step = p.of.along[2].apart * out.stride[4], size = sizeof(T);
  T bias[BLOCK<T>] = {};
  for (i64 i = 0; p.bias && i < channels; ++i)
    bias[i] = *(const T*)(p.bias + (channel + i) * p.bias_step);
  for (i64 r = 0; r < n_runs; ++r) {
    const Run& run = runs[r];
    T* from = sums + run.column * BLOCK<T>;
    if (p.bias)
      for (i64 k = 0; k < run.length; ++k)
        for (i64 i = 0; i < BLOCK<T>; ++i) from[k * BLOCK<T> + i] += bias[i];
    char* to = p.result_of(run, channel);
    if (step == size) {
      turn<T>(to, out.stride[1], (const char*)from, BLOCK<T> * size, run.length, channels);
    } else if (out.stride[1] == size) {
      for (i64 k = 0; k < run.length; ++k, to += step, from += BLOCK<T>)
        copy_line((T*)to, from, channels);
    } else {
      for (i64 i = 0; i < channels; ++i, to += out.stride[1])
        for (i64 k = 0; k < run.length; ++k) *(T*)(to + k * step) = from[k * BLOCK<T> + i];
    }
  }
}

// Write the runs of a unit's windows, and the place of each window's first element, relative to
// that of the first window. The last tile repeats the last window. Returns the number of windows.
static i64 places_of(const Pixels& b, const Unit& u, Run* runs, i64* places) {
  i64 count = 0;
  for (i64 s = 0; s < u.samples; ++s)
    for (i64 r = 0; r < u.rows; ++r) {
      *runs++ = {count, u.columns, u.sample + s, {u.at, u.row + r, u.column}};
      for (i64 k = 0; k < u.columns; ++k)
        places[count++] = s * b.steps.sample + r * b.steps.row + k * b.steps.column;
    }
  for (int i = 1; i < MORE_PIXELS; ++i) places[count + i - 1] = places[count - 1];
  return count;
}

// The element of x that the first tap of a unit's first window would read without an offset.
template <class T> const T* element_of(const Products<T>& p, const Pixels& b, const Unit& u) {
  const Array& x = *p.x;
  return (const T*)(x.data + u.sample * x.stride[0] + u.group * p.inner * x.stride[1] +
                    u.at * p.of.along[0].step * x.stride[2]) +
         u.row * b.steps.row + u.column * b.steps.column;
}

template <class T> struct ByPixels {
  Products<T>* p;
  Pixels pixels;
};

template <class T> void multiply_pixels(const ByPixels<T>& by, i64 first, i64 last) {
  Products<T>& p = *by.p;
  const Pixels& b = by.pixels;
  const i64 taps = p.of.taps(), most = channels_of(p, b), size = sizeof(T);
  const i64 n_places = b.samples * b.rows * b.columns + MORE_PIXELS;
  const i64 copied = b.reads_x ? 0 : b.samples * b.steps.sample;
  const i64 packed = p.weights ? 0 : most * taps * BLOCK<T>;
  const i64 each = (p.blocks + b.parts - 1) / b.parts;
  Room room(Room::bytes_of<T>(copied) + Room::bytes_of<i64>(most * taps) +
            Room::bytes_of<T>(n_places * BLOCK<T>) + Room::bytes_of<i64>(n_places) +
            Room::bytes_of<Run>(b.samples * b.rows) + Room::bytes_of<T>(packed));
  if (!room) return note(&p.answer, NO_MEMORY);
  T *copy = room.take<T>(copied), *sums = room.take<T>(n_places * BLOCK<T>);
  i64 *offsets = room.take<i64>(most * taps), *places = room.take<i64>(n_places);
  Run* runs = room.take<Run>(b.samples * b.rows);
  T* own = room.take<T>(packed);
  offsets_of(p, b, most, offsets);
  for (i64 part = first, here = -1; part < last; ++part) {
    const Unit u = unit_of(p, b, part / b.parts);
    const i64 count = places_of(b, u, runs, places);
    if (!b.reads_x && here != part / b.parts)
      for (i64 s = 0; s < u.samples; ++s) copy_rows(p, b, u, s, copy + s * b.steps.sample);
    here = part / b.parts;
    const T* source = b.reads_x ? element_of(p, b, u) : copy;
    const i64 low = part % b.parts * each, high = smaller(low + each, p.blocks);
    for (i64 block = low; block < high; ++block) {
      const i64 channels = smaller(BLOCK<T>, p.outer - block * BLOCK<T>);
      const Tile<T> tile = tile_of<T>(channels);
      if (!p.inner) memset(sums, 0, count * BLOCK<T> * size);
      for (i64 channel = 0; channel < p.inner; channel += most) {
        const i64 stop = smaller(channel + most, p.inner), n = (stop - channel) * taps;
        const i64 row = ((u.group * p.blocks + block) * p.inner + channel) * taps;
        const T* weights = p.weights ? p.weights + row * BLOCK<T> : own;
        if (!p.weights)
          pack_weights<T, BLOCK<T>>(p.of_group(u.group), p.of, p.outer, block, channel, stop, own);
        // Each tile fetches a part of the next chunk.
        const char* next = (const char*)(weights + n * BLOCK<T>);
        const i64 ahead = p.weights ? n * BLOCK<T> * size / (count / tile.pixels + 1) + LINE : 0;
        for (i64 k = 0; k < count; k += tile.pixels, next += ahead) {
          for (i64 line = 0; line < ahead; line += LINE) __builtin_prefetch(next + line, 0, 2);
          const T* from[MORE_PIXELS];
          for (int i = 0; i < MORE_PIXELS; ++i)
            from[i] = source + channel * b.steps.channel + places[k + i];
          tile.multiply(from, offsets, n, weights, sums + k * BLOCK<T>,
                        channel ? Sums::CONTINUED : Sums::FIRST);
        }
      }
      write_pixels(p, sums, u.group * p.outer + block * BLOCK<T>, channels, runs,
                   u.samples * u.rows);
    }
  }
}

template <class T> i64 read_pixels(const Call& call, Products<T>& p, const Pixels& pixels) {
  ByPixels<T> by = {&p, pixels};
  const i64 windows = pixels.samples * pixels.rows * pixels.columns;
  const i64 products = windows * p.inner * p.of.taps() * p.outer / pixels.parts;
  call.share(as_body(multiply_pixels<T>), &by, pixels.units * p.groups * pixels.parts,
             larger(1, SHARE / larger(1, products / 8)));
  return p.answer;
}

}  // namespace

}  // namespace CAPABILITY

#endif
