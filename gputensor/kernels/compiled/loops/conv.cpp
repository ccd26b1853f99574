// Convolutions of one to three dimensions as products of weights and windows, and the gradients of
// weights.                                                                          family: conv
//
// Calls    conv(x, weight, bias or None, out, windows, groups, transposed)
//          weight_gradient(x, grad, out, windows, groups)
//          x is (n, c, d, h, w), weight (o, c, d, h, w) and bias (o), of any strides; windows: the
//          step, the padding and the dilation of d, h and w. A transposed convolution is computed
//          as several plain ones: one for each of the different sets of taps that its steps select.
// Types    f32 and f64, of all arrays.
// Memory   weights are packed once. Each thread has a copy of some rows of the input, from which
//          windows are read, unless they can be read from x itself (conv_pixels.h, and
//          conv_direct.h for few channels of the result).
// Order    over channels and taps in the order of the weights. The sum of a gradient is over groups
//          of windows, whose sums are added.
#include "conv_depthwise.h"
#include "conv_gradient.h"

namespace CAPABILITY {

namespace {

// Pack the weights of all groups, in the order of their memory: by blocks of W channels, or by
// channels of the input.
template <class T, int W> void pack_all(const Call& call, const Products<T>& p, T* to) {
  const i64 depth = p.inner * p.of.taps();
  const bool by_blocks = p.source.read <= p.source.made;
  const i64 shares = by_blocks ? p.blocks : p.inner;
  over(call, true, p.groups * shares, depth * p.blocks * W / shares, [&](i64 first, i64 last) {
    for (i64 unit = first; unit < last; ++unit) {
      const i64 group = unit / shares, share = unit % shares;
      const i64 low = by_blocks ? 0 : share, high = by_blocks ? p.inner : share + 1;
      for (i64 block = by_blocks ? share : 0; block < (by_blocks ? share + 1 : p.blocks); ++block)
        pack_weights<T, W>(p.of_group(group), p.of, p.outer, block, low, high,
                           to + ((group * p.blocks + block) * depth + low * p.of.taps()) * W);
    }
  });
}

template <class T> i64 products(const Call& call, Products<T>& p) {
  const Bands bands = bands_of(p, call.threads);
  const bool directly = is_cheaper(p, bands);
  const i64 width = directly ? ROWS<T> : BLOCK<T>;
  p.blocks = (p.outer + width - 1) / width;
  const Pixels pixels = directly ? Pixels{} : pixels_of(p, call.threads);
  if (!directly && pixels.units == 1) return read_pixels(call, p, pixels);
  Room room(Room::bytes_of<T>(p.groups * p.blocks * p.inner * p.of.taps() * width));
  if (!room) return NO_MEMORY;
  T* packed = room.take<T>(p.groups * p.blocks * p.inner * p.of.taps() * width);
  directly ? pack_all<T, ROWS<T>>(call, p, packed) : pack_all<T, BLOCK<T>>(call, p, packed);
  p.weights = packed;
  return directly ? read_directly(call, p, bands) : read_pixels(call, p, pixels);
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
    Products<T> p = {of, &x, &out, weights, apart, nullptr, bias.data,
                     bias.data ? bias.stride[0] : 0, outer, inner, groups, 0, 0};
    const i64 answer = inner == 1 && outer <= 2
                           ? each_channel<T>(call, of, x, w, bias, out, transposed, outer)
                           : products(call, p);
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
