// The gradient of a convolution's weights: sums over windows of products of x and the result's
// gradient.
//
// Order    over some windows at a time, chosen by sizes alone; their sums are added.
#ifndef GPUTENSOR_CONV_GRADIENT
#define GPUTENSOR_CONV_GRADIENT

#include "conv_depthwise.h"
#include "conv_pixels.h"

namespace CAPABILITY {

namespace {

constexpr i64 LENGTH = 192;  // windows in one partial sum of a gradient

template <class T> struct Gradient {
  Windows of;
  const Array *x, *grad, *out;
  i64 outer, inner, parts;  // number of parts of the rows
  // true if the channels of x are adjacent: then rows are ordered by tap, then by channel
  bool are_beside;
  i64 answer;

  i64 tap(i64 row) const { return are_beside ? row / inner : row % of.taps(); }
  i64 channel(i64 row) const { return are_beside ? row % inner : row / of.taps(); }
};

// to[q][WIDTH]: gradients of WIDTH channels at the windows of some runs.
template <class T>
void pack_gradients(const Gradient<T>& p, i64 channel, i64 count, const Run* runs, i64 n_runs,
                    T* to) {
  const Array& grad = *p.grad;
  for (i64 r = 0; r < n_runs; ++r) {
    const Run& run = runs[r];
    const char* from = grad.data + run.sample * grad.stride[0] + channel * grad.stride[1];
    for (int d = 0; d < 3; ++d) from += run.at[d] * grad.stride[d + 2];
    T* row = to + run.column * WIDTH<T>;
    if (grad.stride[1] == (i64)sizeof(T)) {
      for (i64 k = 0; k < run.length; ++k)
        memcpy(row + k * WIDTH<T>, from + k * grad.stride[4], count * sizeof(T));
      continue;
    }
    if (grad.stride[4] == (i64)sizeof(T)) {
      turn<T>((char*)row, WIDTH<T> * sizeof(T), from, grad.stride[1], count, run.length);
      continue;
    }
    for (i64 j = 0; j < count; ++j)
      for (i64 k = 0; k < run.length; ++k)
        row[k * WIDTH<T> + j] = *(const T*)(from + j * grad.stride[1] + k * grad.stride[4]);
  }
}

// to[q][ROWS]: the elements that rows [begin, begin + rows) read for the windows of some runs. A
// row is a tap of a channel of x. lines: memory for as many elements.
template <class T>
void pack_rows(const Gradient<T>& p, const Piece* pieces, i64 n_runs, i64 first_channel, i64 begin,
               i64 rows, i64 count, T* lines, T* to) {
  const Array& x = *p.x;
  const i64 step = p.of.along[2].step * x.stride[4], tap = p.tap(begin);
  if (p.are_beside && rows == ROWS<T> && tap == p.tap(begin + rows - 1)) {
    const i64 channel = (first_channel + p.channel(begin)) * sizeof(T);
    for (i64 r = 0; r < n_runs; ++r) {
      const Piece& piece = pieces[tap * n_runs + r];
      T* row = to + piece.column * ROWS<T>;
      clear_line(row, piece.low * ROWS<T>);
      for (i64 k = piece.low; k < piece.high; ++k)
        memcpy(row + k * ROWS<T>, piece.data + channel + (k - piece.low) * step,
               ROWS<T> * sizeof(T));
      clear_line(row + piece.high * ROWS<T>, (piece.length - piece.high) * ROWS<T>);
    }
    return;
  }
  for (i64 i = 0; i < rows; ++i)
    gather(pieces + p.tap(begin + i) * n_runs, n_runs,
           (first_channel + p.channel(begin + i)) * x.stride[1], step, lines + i * LENGTH);
  turn<T>((char*)to, ROWS<T> * sizeof(T), (const char*)lines, LENGTH * sizeof(T), rows, count);
}

// Write the sums of rows [begin, begin + rows) for some channels of the result, from `channel` on.
template <class T>
void put_rows(const Gradient<T>& p, i64 begin, i64 rows, i64 channel, i64 channels, const T* sums) {
  const Axis* along = p.of.along;
  const Array& out = *p.out;
  char *to = out.data + channel * out.stride[0], *at[ROWS<T>];
  bool are_dense = true;
  for (i64 i = 0; i < rows; ++i) {
    const i64 tap = p.tap(begin + i), c = tap % along[2].taps, rest = tap / along[2].taps;
    at[i] = to + p.channel(begin + i) * out.stride[1] + c * out.stride[4] +
            rest % along[1].taps * out.stride[3] + rest / along[1].taps * out.stride[2];
    are_dense = are_dense && at[i] == at[0] + i * sizeof(T);
  }
  if (are_dense)
    return turn<T>(at[0], out.stride[0], (const char*)sums, WIDTH<T> * sizeof(T), rows, channels);
  for (i64 o = 0; o < channels; ++o)
    for (i64 i = 0; i < rows; ++i) *(T*)(at[i] + o * out.stride[0]) = sums[i * WIDTH<T> + o];
}

// Write rows [low, high) of one group's weights.
template <class T>
void put_sums(const Gradient<T>& p, i64 group, i64 low, i64 high, const T* sums) {
  const i64 panels = (p.outer + WIDTH<T> - 1) / WIDTH<T>;
  const i64 blocks = (high - low + ROWS<T> - 1) / ROWS<T>;
  for (i64 block = 0; block < blocks; ++block)
    for (i64 panel = 0; panel < panels; ++panel) {
      const i64 begin = low + block * ROWS<T>, channel = panel * WIDTH<T>;
      put_rows(p, begin, smaller(ROWS<T>, high - begin), group * p.outer + channel,
               smaller(WIDTH<T>, p.outer - channel),
               sums + (block * panels + panel) * ROWS<T> * WIDTH<T>);
    }
}

// Compute rows [low, high) of one group's weights.
template <class T> void gradients_of(Gradient<T>& p, i64 group, i64 low, i64 high) {
  const i64 taps = p.of.taps(), panels = (p.outer + WIDTH<T> - 1) / WIDTH<T>;
  const i64 blocks = (high - low + ROWS<T> - 1) / ROWS<T>, tile_size = ROWS<T> * WIDTH<T>;
  const i64 n_pieces = taps * most_runs(p.of, LENGTH);
  Room room(Room::bytes_of<Run>(LENGTH) + Room::bytes_of<Piece>(n_pieces) +
            2 * Room::bytes_of<T>(LENGTH * ROWS<T>) +
            Room::bytes_of<T>(panels * LENGTH * WIDTH<T>) +
            Room::bytes_of<T>(tile_size) + Room::bytes_of<T>(blocks * panels * tile_size));
  if (!room) return note(&p.answer, NO_MEMORY);
  Run* runs = room.take<Run>(LENGTH);
  Piece* pieces = room.take<Piece>(n_pieces);
  T *lines = room.take<T>(LENGTH * ROWS<T>), *left = room.take<T>(LENGTH * ROWS<T>);
  T *right = room.take<T>(panels * LENGTH * WIDTH<T>);
  T *term = room.take<T>(tile_size), *sums = room.take<T>(blocks * panels * tile_size);
  memset(sums, 0, blocks * panels * tile_size * sizeof(T));
  memset(left, 0, LENGTH * ROWS<T> * sizeof(T));
  memset(right, 0, panels * LENGTH * WIDTH<T> * sizeof(T));
  const i64 columns = p.of.columns();
  for (i64 from = 0; from < columns; from += LENGTH) {
    const i64 count = smaller(LENGTH, columns - from);
    const i64 n_runs = runs_of(p.of, from, from + count, runs);
    pieces_of(p.of, *p.x, p.x->data, runs, n_runs, pieces);
    for (i64 panel = 0; panel < panels; ++panel)
      pack_gradients(p, group * p.outer + panel * WIDTH<T>,
                     smaller(WIDTH<T>, p.outer - panel * WIDTH<T>), runs, n_runs,
                     right + panel * LENGTH * WIDTH<T>);
    for (i64 block = 0; block < blocks; ++block) {
      const i64 begin = low + block * ROWS<T>, rows = smaller(ROWS<T>, high - begin);
      pack_rows(p, pieces, n_runs, group * p.inner, begin, rows, count, lines, left);
      for (i64 panel = 0; panel < panels; ++panel) {
        tile_of(rows, p.outer - panel * WIDTH<T>, left, right + panel * LENGTH * WIDTH<T>, count,
                term, false);
        T* sum = sums + (block * panels + panel) * tile_size;
        for (i64 k = 0; k < rows * WIDTH<T>; ++k) sum[k] += term[k];
      }
    }
  }
  put_sums(p, group, low, high, sums);
}

// out[i, j] += the sum over the windows of a band of a[i][window] * b[window][j]. A row of `a` has
// `width` windows and is `pitch` elements from the next one; b is dense.
template <class T, int R, int COLUMNS>
static void tile_of_band(const T* const* a, i64 pitch, const T* b, i64 rows, i64 width, T* out) {
  typedef wide<T> V;
  typename V::type sum[R][COLUMNS];
  const T* from[R];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
    from[i] = a[i];
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) sum[i][j] = V::zero();
  }
  for (; rows; --rows) {
    for (i64 k = 0; k < width; ++k, b += WIDTH<T>) {
      typename V::type right[COLUMNS];
#pragma GCC unroll 3
      for (int j = 0; j < COLUMNS; ++j) right[j] = V::load(b + j * V::LANES);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const typename V::type left = V::all(from[i][k]);
#pragma GCC unroll 3
        for (int j = 0; j < COLUMNS; ++j) sum[i][j] = V::fma(left, right[j], sum[i][j]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) from[i] += pitch;
  }
  const typename V::type one = V::all(1);
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) {
      T* to = out + i * WIDTH<T> + j * V::LANES;
      V::store(to, V::fma(V::load(to), one, sum[i][j]));
    }
}

template <class T> static auto tile_of_band(i64 columns) {
  const i64 registers = (columns + wide<T>::LANES - 1) / wide<T>::LANES;
  return registers == 1   ? tile_of_band<T, ROWS<T>, 1>
         : registers == 2 ? tile_of_band<T, ROWS<T>, 2>
                          : tile_of_band<T, ROWS<T>, 3>;
}

// Bands of up to LENGTH windows; rows: 0 if x should be gathered into lines.
template <class T> Bands bands_of(const Gradient<T>& p) {
  Bands b = layout_of(p.of);
  const i64 most = LENGTH / larger(1, p.of.along[2].count);
  if (!b.pitch || !most || p.are_beside) return b;
  cut_bands(b, p.of.along[1].count, most);
  // For all channels together, so that the order of the sums does not depend on the number of
  // threads.
  const i64 copy = p.inner * p.of.along[0].taps * b.plane() * (i64)sizeof(T);
  // Otherwise sums would be read too often, or elements would leave the cache.
  if (2 * b.rows * p.of.along[2].count < LENGTH || copy > 4 * NEAR) b.rows = 0;
  return b;
}

// Like `gradients_of`, but elements are read from a copy: see conv_direct.h.
template <class T>
void gradients_of_bands(Gradient<T>& p, const Bands& b, i64 group, i64 low, i64 high) {
  const Axis* along = p.of.along;
  const i64 taps = p.of.taps(), panels = (p.outer + WIDTH<T> - 1) / WIDTH<T>;
  const i64 blocks = (high - low + ROWS<T> - 1) / ROWS<T>, tile_size = ROWS<T> * WIDTH<T>;
  const i64 channel = low / taps, channels = (high - 1) / taps + 1 - channel;
  const i64 channel_size = along[0].taps * b.plane();
  Room room(Room::bytes_of<T>(channels * channel_size) + Room::bytes_of<i64>(taps) +
            Room::bytes_of<Run>(b.rows) + Room::bytes_of<T>(panels * LENGTH * WIDTH<T>) +
            Room::bytes_of<T>(blocks * panels * tile_size));
  if (!room) return note(&p.answer, NO_MEMORY);
  T* copy = room.take<T>(channels * channel_size);
  T* right = room.take<T>(panels * LENGTH * WIDTH<T>);
  T* sums = room.take<T>(blocks * panels * tile_size);
  i64* offsets = room.take<i64>(taps);
  Run* runs = room.take<Run>(b.rows);
  memset(sums, 0, blocks * panels * tile_size * sizeof(T));
  memset(right, 0, panels * LENGTH * WIDTH<T> * sizeof(T));
  offsets_of(p.of, b, offsets);
  for (i64 unit = 0; unit < p.of.samples * along[0].count * b.count; ++unit) {
    const i64 first = unit % b.count * b.rows, at = unit / b.count % along[0].count;
    const i64 sample = unit / b.count / along[0].count;
    const i64 rows = smaller(b.rows, along[1].count - first), width = along[2].count;
    copy_band(p.of, *p.x, b, sample, at, first, rows, group * p.inner + channel, channels, copy);
    for (i64 r = 0; r < rows; ++r) runs[r] = {r * width, width, sample, {at, first + r, 0}};
    for (i64 panel = 0; panel < panels; ++panel)
      pack_gradients(p, group * p.outer + panel * WIDTH<T>,
                     smaller(WIDTH<T>, p.outer - panel * WIDTH<T>), runs, rows,
                     right + panel * LENGTH * WIDTH<T>);
    for (i64 block = 0; block < blocks; ++block) {
      const T* from[ROWS<T>];
      for (i64 i = 0; i < ROWS<T>; ++i) {
        const i64 row = smaller(low + block * ROWS<T> + i, high - 1);
        from[i] = copy + (row / taps - channel) * channel_size + offsets[row % taps];
      }
      for (i64 panel = 0; panel < panels; ++panel)
        tile_of_band<T>(p.outer - panel * WIDTH<T>)(
            from, b.pitch, right + panel * LENGTH * WIDTH<T>, rows, width,
            sums + (block * panels + panel) * tile_size);
    }
  }
  put_sums(p, group, low, high, sums);
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
  Gradient<T> p = {{},  &x,  &grad, &out, grad.shape[1] / groups, x.shape[1] / groups, 1,
                   are_side_by_side(x), 0};
  p.of.samples = x.shape[0];
  for (int d = 0; d < 3; ++d) {
    axes_of(&p.of.along[d], 0, list, x.shape[d + 2], grad.shape[d + 2], out.shape[d + 2], n[d],
            n[d + 3], n[d + 6], false);
    list += 2 * out.shape[d + 2];
  }
  if (p.inner == 1 && p.outer <= 2)
    return each_gradient<T>(call, p.of, x, grad, out, p.outer);
  const i64 rows = p.inner * p.of.taps(), blocks = (rows + ROWS<T> - 1) / ROWS<T>;
  p.parts = groups >= call.threads ? 1 : smaller(blocks, (call.threads - 1) / groups + 1);
  const Bands bands = bands_of(p);
  over(call, true, groups * p.parts, rows * p.of.columns() / p.parts, [&](i64 first, i64 last) {
    const i64 each = (blocks + p.parts - 1) / p.parts * ROWS<T>;
    for (i64 unit = first; unit < last; ++unit) {
      const i64 low = unit % p.parts * each;
      const i64 high = smaller(low + each, rows);
      if (low < rows && bands.rows) gradients_of_bands(p, bands, unit / p.parts, low, high);
      if (low < rows && !bands.rows) gradients_of(p, unit / p.parts, low, high);
    }
  });
  return p.answer;
}

}  // namespace

}  // namespace CAPABILITY

#endif
