// Convolutions of one to three dimensions as products of weights and windows, and the gradients of
// weights.                                                                          family: conv
//
// Calls    conv(x, weight, bias or None, out, windows, groups, transposed),
//          weight_gradient(x, grad, out, windows, groups)
//          Arrays are (n, c, d, h, w), (o, c, d, h, w) and (o), of any strides; windows: the step,
//          the padding and the dilation of d, h and w. A transposed convolution is computed as
//          several plain ones: one for each of the different sets of taps that its steps leave.
// Types    f32 and f64, of all arrays.
// Memory weights are packed once, in panels; each thread has a panel of windows, which stays in its
// cache, or for large weights MOST_TILES panels, so that the weights are read less often.
// Order over channels and taps in the order of the weights; a gradient's sum is over windows, some
// at a time, whose sums are added.
#include "conv_depthwise.h"
#include "conv_direct.h"

namespace CAPABILITY {

namespace {

constexpr i64 MOST_TILES = 4;
constexpr i64 FAR = 4 << 20;  // bytes of weights that leave the cache between two tiles
constexpr i64 LENGTH = 192;  // windows whose sum is one term of a gradient

// panel[c][t][WIDTH]: the elements that each tap reads in channels [channel, stop).
template <class T>
void fill_panel(const Piece* pieces, i64 n_runs, i64 taps, i64 channel, i64 stop, i64 channel_step,
                i64 step, T* panel) {
  if (channel_step == (i64)sizeof(T) && step != (i64)sizeof(T) && stop - channel > 1) {
    for (i64 t = 0; t < taps; ++t)
      gather_beside(pieces + t * n_runs, n_runs, channel, stop - channel, step, taps * WIDTH<T>,
                    panel + t * WIDTH<T>);
    return;
  }
  for (i64 c = channel; c < stop; ++c)
    for (i64 t = 0; t < taps; ++t, panel += WIDTH<T>)
      gather(pieces + t * n_runs, n_runs, c * channel_step, step, panel);
}

// A tile of WIDTH columns: the runs of its windows, what each tap reads, and its panel.
template <class T> struct Strip {
  Run* runs;
  Piece* pieces;
  T* panel;
  i64 n_runs, columns;
};

// Find the windows of up to `tiles` tiles from column `from` on. Returns the number of tiles.
template <class T> i64 cut_strips(const Products<T>& p, i64 from, Strip<T>* strips) {
  i64 n = 0;
  for (; n < p.tiles && from < p.of.columns(); ++n, from += WIDTH<T>) {
    Strip<T>& strip = strips[n];
    const i64 to = smaller(from + WIDTH<T>, p.of.columns());
    strip.columns = to - from;
    strip.n_runs = runs_of(p.of, from, to, strip.runs);
    pieces_of(p.of, *p.x, p.x->data, strip.runs, strip.n_runs, strip.pieces);
  }
  return n;
}

// Some tiles of one group, for one part of the blocks of channels. The weights of a block are read
// once for all of them.
template <class T> void multiply(void* context, i64 first, i64 last) {
  Products<T>& p = *(Products<T>*)context;
  const i64 taps = p.of.taps(), most = taps ? larger(1, DEPTH / taps) : p.inner;
  const i64 depth = p.inner * taps, each = (p.blocks + p.parts - 1) / p.parts;
  const i64 step = p.of.along[2].step * p.x->stride[4], tile_size = ROWS<T> * WIDTH<T>;
  const bool is_whole = p.inner <= most;  // one panel has all rows
  const i64 n_pieces = larger(1, taps) * most_runs(p.of, WIDTH<T>);
  const i64 panel_size = (smaller(most, p.inner) * taps + 1) * WIDTH<T>;
  const i64 n_sums = is_whole ? tile_size : each * p.tiles * tile_size;
  Room room(p.tiles * (Room::bytes_of<Run>(WIDTH<T>) + Room::bytes_of<Piece>(n_pieces) +
                       Room::bytes_of<T>(panel_size)) +
            Room::bytes_of<T>(n_sums));
  if (!room) return note(&p.answer, NO_MEMORY);
  Strip<T> strips[MOST_TILES];
  for (i64 t = 0; t < p.tiles; ++t) {
    strips[t] = {room.take<Run>(WIDTH<T>), room.take<Piece>(n_pieces), room.take<T>(panel_size), 0,
                 0};
    memset(strips[t].panel, 0, panel_size * sizeof(T));
  }
  T* sums = room.take<T>(n_sums);
  i64 here = -1, n_strips = 0;
  for (i64 unit = first; unit < last; ++unit) {
    const i64 part = unit % p.parts, group = unit / p.parts % p.groups;
    const i64 at = unit / p.parts / p.groups;
    if (at != here) {
      n_strips = cut_strips(p, at * p.tiles * WIDTH<T>, strips);
      here = at;
    }
    const i64 low = part * each, high = smaller(low + each, p.blocks);
    for (i64 channel = 0; channel < p.inner; channel += most) {
      const i64 stop = smaller(channel + most, p.inner);
      for (i64 t = 0; t < n_strips; ++t)
        fill_panel(strips[t].pieces, strips[t].n_runs, taps, group * p.inner + channel,
                   group * p.inner + stop, p.x->stride[1], step, strips[t].panel);
      for (i64 block = low; block < high; ++block) {
        const i64 row_of_weights = (group * p.blocks + block) * depth + channel * taps;
        const i64 rows = smaller(ROWS<T>, p.outer - block * ROWS<T>);
        for (i64 t = 0; t < n_strips; ++t) {
          const Strip<T>& strip = strips[t];
          T* sum = is_whole ? sums : sums + ((block - low) * p.tiles + t) * tile_size;
          tile_of(rows, strip.columns, p.weights + row_of_weights * ROWS<T>, strip.panel,
                  (stop - channel) * taps, sum, channel != 0);
          if (stop == p.inner)
            write(p, sum, group * p.outer + block * ROWS<T>, rows, strip.runs, strip.n_runs);
        }
      }
    }
  }
}

template <class T>
i64 products(const Call& call, const Windows& of, const Array& x, const Weights& w,
             i64 from_group_to_group, i64 outer, i64 inner, i64 groups) {
  const Array &bias = call.array[2], &out = call.array[3];
  const i64 blocks = (outer + ROWS<T> - 1) / ROWS<T>, depth = inner * of.taps();
  Room room(Room::bytes_of<T>(groups * blocks * depth * ROWS<T>));
  if (!room) return NO_MEMORY;
  T* packed = room.take<T>(groups * blocks * depth * ROWS<T>);
  // In memory order: by blocks, or by channels of the input.
  const bool by_blocks = w.read <= w.made;
  const i64 shares = by_blocks ? blocks : inner;
  over(call, true, groups * shares, depth * blocks * ROWS<T> / shares, [&](i64 first, i64 last) {
    for (i64 unit = first; unit < last; ++unit) {
      const i64 group = unit / shares, share = unit % shares;
      const i64 low = by_blocks ? 0 : share, high = by_blocks ? inner : share + 1;
      Weights own = w;
      own.data += group * from_group_to_group;
      for (i64 block = by_blocks ? share : 0; block < (by_blocks ? share + 1 : blocks); ++block)
        pack_weights(own, of, outer, block, low, high,
                     packed + ((group * blocks + block) * depth + low * of.taps()) * ROWS<T>);
    }
  });
  Products<T> p = {of, &x, &out, packed, bias.data, bias.data ? bias.stride[0] : 0, outer,
                   inner, groups, blocks, 1, 1, 0};
  if (const Bands bands = bands_of(p, call.threads); bands.rows) return read_directly(call, p, bands);
  const i64 tiles = depth * blocks * ROWS<T> * (i64)sizeof(T) > FAR ? MOST_TILES : 1;
  const i64 units = (of.columns() + tiles * WIDTH<T> - 1) / (tiles * WIDTH<T>) * groups;
  // If there are few tiles, the channels are also divided among threads; each part gathers its
  // windows again.
  const i64 wanted = 2 * call.threads;
  const i64 parts = units >= wanted ? 1 : smaller(blocks, (wanted - 1) / units + 1);
  p.parts = parts, p.tiles = tiles;
  const i64 each = SHARE / larger(1, depth * outer * tiles * WIDTH<T> / parts / 8);
  call.share(multiply<T>, &p, units * parts, larger(1, each));
  return p.answer;
}

// --- plain and transposed ------------------------------------------------------------------------

// The sets of taps along one dimension. A plain convolution has one set. A transposed convolution
// has `step` sets; the results of one set are `step` elements apart.
void axes_of(Axis* axes, i64 number, i64* room, i64 size, i64 out, i64 kernel, i64 step, i64 pad,
             i64 gap, bool transposed) {
  Axis& axis = *axes;
  i64 *offset = room, *index = room + kernel, taps = 0;
  for (i64 k = 0; k < kernel; ++k) {
    const i64 at = transposed ? number + pad - k * gap : k * gap - pad;
    if (transposed && at % step) continue;
    offset[taps] = transposed ? at / step : at, index[taps++] = k;
  }
  if (transposed) {
    axis = {size, out > number ? (out - number + step - 1) / step : 0, 1, number, step, taps};
  } else {
    axis = {size, out, step, 0, 1, taps};
  }
  axis.offset = offset, axis.kernel = index;
}

template <class T> i64 convolution(const Call& call) {
  const Array &x = call.array[0], &w = call.array[1], &out = call.array[3];
  const i64* n = call.integer;
  const i64 groups = n[9];
  const bool transposed = n[10] != 0;
  for (int k = 0; k < 4; ++k)
    if (call.array[k].data && call.array[k].dtype != code_of<T>) return 1;
  const i64 outer = out.shape[1] / groups, inner = x.shape[1] / groups;
  const i64 kernels = w.shape[2] + w.shape[3] + w.shape[4];
  Room room(Room::bytes_of<i64>(2 * kernels));
  if (!room) return NO_MEMORY;
  i64* lists = room.take<i64>(2 * kernels);
  Weights weights = {w.data, w.stride[transposed], w.stride[!transposed],
                     {w.stride[2], w.stride[3], w.stride[4]}};
  const i64 apart = (transposed ? inner : outer) * w.stride[0];
  i64 phases[3] = {1, 1, 1};
  for (int d = 0; d < 3 && transposed; ++d) phases[d] = smaller(n[d], out.shape[d + 2]);
  for (i64 phase = 0; phase < phases[0] * phases[1] * phases[2]; ++phase) {
    const i64 number[3] = {phase / phases[2] / phases[1], phase / phases[2] % phases[1],
                           phase % phases[2]};
    Windows of;
    of.samples = x.shape[0];
    i64* list = lists;
    for (int d = 0; d < 3; ++d) {
      axes_of(&of.along[d], number[d], list, x.shape[d + 2], out.shape[d + 2], w.shape[d + 2], n[d],
              n[d + 3], n[d + 6], transposed);
      list += 2 * w.shape[d + 2];
    }
    if (!of.columns()) continue;
    const Array& bias = call.array[2];
    const i64 answer = inner == 1 && outer <= 2
                           ? each_channel<T>(call, of, x, w, bias, out, transposed, outer)
                           : products<T>(call, of, x, weights, apart, outer, inner, groups);
    if (answer) return answer;
  }
  return 0;
}

// --- the gradient of weights ---------------------------------------------------------------------

template <class T> struct Gradient {
  Windows of;
  const Array *x, *grad, *out;
  i64 outer, inner, parts;  // the number of parts of the rows
  bool are_beside;          // x's channels are adjacent: rows are ordered by tap, then by channel
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
// row is a tap of a channel of x. lines: memory for the same number of elements.
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

// Rows [low, high) of one group's weights.
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
  for (i64 block = 0; block < blocks; ++block)
    for (i64 panel = 0; panel < panels; ++panel) {
      const i64 begin = low + block * ROWS<T>, channel = panel * WIDTH<T>;
      put_rows(p, begin, smaller(ROWS<T>, high - begin), group * p.outer + channel,
               smaller(WIDTH<T>, p.outer - channel), sums + (block * panels + panel) * tile_size);
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
  over(call, true, groups * p.parts, rows * p.of.columns() / p.parts, [&](i64 first, i64 last) {
    const i64 each = (blocks + p.parts - 1) / p.parts * ROWS<T>;
    for (i64 unit = first; unit < last; ++unit) {
      const i64 low = unit % p.parts * each;
      if (low < rows) gradients_of(p, unit / p.parts, low, smaller(low + each, rows));
    }
  });
  return p.answer;
}

const abi::FunctionEntry functions[] = {
    {"conv f32", convolution<f32>, true},
    {"conv f64", convolution<f64>, true},
    {"weight_gradient f32", weight_gradient<f32>, true},
    {"weight_gradient f64", weight_gradient<f64>, true},
};

}  // namespace

extern const abi::Family conv;
extern const abi::Family conv = {"conv", nullptr, 0, functions,
                                 sizeof functions / sizeof *functions};
}  // namespace CAPABILITY
