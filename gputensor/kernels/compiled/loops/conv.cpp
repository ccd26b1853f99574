// Convolutions of one to three dimensions as products of weights and windows, and the gradients of
// weights.                                                                          family: conv
//
// Calls    conv(x, weight, bias or None, out, windows, groups, transposed)
//          weight_gradient(x, grad, out, windows, groups)
//          x is (n, c, d, h, w), weight (o, c, d, h, w) and bias (o), of any strides; windows: the
//          step, the padding and the dilation of d, h and w. A transposed convolution is computed
//          as several plain ones: one for each of the different sets of taps that its steps select.
// Types    f32 and f64, of all arrays.
// Memory   weights are packed once, in panels. Each thread has a copy of some rows of the input,
//          from which windows are read (conv_direct.h). Otherwise it has a panel of windows, which
//          stays in its cache. For large weights it has MOST_TILES panels, so that the weights are
//          read less often.
// Order    over channels and taps in the order of the weights. The sum of a gradient is over groups
//          of windows, whose sums are added.
#include "conv_depthwise.h"
#include "conv_gradient.h"

namespace CAPABILITY {

namespace {

constexpr i64 MOST_TILES = 4;
constexpr i64 FAR = 4 << 20;  // bytes of weights from which they leave the cache between two tiles

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

// A tile of WIDTH columns: the runs of its windows, the elements that each tap reads, and its
// panel.
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
// once for all of these tiles.
template <class T> void multiply(Products<T>& p, i64 first, i64 last) {
  const i64 taps = p.of.taps(), most = taps ? larger(1, DEPTH / taps) : p.inner;
  const i64 depth = p.inner * taps, each = (p.blocks + p.parts - 1) / p.parts;
  const i64 step = p.of.along[2].step * p.x->stride[4], tile_size = ROWS<T> * WIDTH<T>;
  const bool is_whole = p.inner <= most;  // all rows fit into one panel
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
  const Bands bands = bands_of(p, call.threads);
  if (bands.rows) return read_directly(call, p, bands);
  const i64 tiles = depth * blocks * ROWS<T> * (i64)sizeof(T) > FAR ? MOST_TILES : 1;
  const i64 units = (of.columns() + tiles * WIDTH<T> - 1) / (tiles * WIDTH<T>) * groups;
  // If there are few tiles, the channels are also divided among threads. Each part then gathers its
  // windows again.
  const i64 wanted = 2 * call.threads;
  const i64 parts = units >= wanted ? 1 : smaller(blocks, (wanted - 1) / units + 1);
  p.parts = parts, p.tiles = tiles;
  const i64 each = SHARE / larger(1, depth * outer * tiles * WIDTH<T> / parts / 8);
  call.share(as_body(multiply<T>), &p, units * parts, larger(1, each));
  return p.answer;
}

// --- plain and transposed ------------------------------------------------------------------------

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

const abi::FunctionEntry functions[] = {
    {"conv f32", convolution<f32>, true},
    {"conv f64", convolution<f64>, true},
    {"weight_gradient f32", weight_gradient<f32>, true},
    {"weight_gradient f64", weight_gradient<f64>, true},
};

}  // namespace

extern const abi::Family conv = {"conv", functions};
}  // namespace CAPABILITY
