// outputs[i] = op::loopN(inputs[i], numbers), and what stands between such loops.  a chain
//
// Shapes   any strides, which count bytes; rows run along one dimension. A tile is TILE elements of
//          a row, or as many whole rows.
// Types    those of the chain's values, which the text of `tile` names.
// Order    each element by itself; a sum of a row, or of a run, in that of NumPy's pairwise sum.
// Source   fusion/native_text.py writes `tile`, the macros and `sums_found`; the parts of this file
//          stand around the functors of kernels/cuda/*.cu and around that.
//
// === before the functors
#include <cmath>
#include <cstdlib>
#define __device__
#define __host__
#define __global__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
struct uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; };
static const uint3 threadIdx = {}, blockIdx = {}, blockDim = {}, gridDim = {};
void __syncthreads();
void __syncwarp();
unsigned __byte_perm(unsigned, unsigned, unsigned);
unsigned __funnelshift_r(unsigned, unsigned, unsigned);
template <class T> T __ldg(const T*);
// === before a tile
template <class T> struct of_row {  // n elements, from x on
  typedef T lanes __attribute__((vector_size(8 * sizeof(T)), aligned(1), may_alias));
  typedef T one __attribute__((aligned(1)));
  static T sum(const one* x, i64 n) {
    if (n < 8) {
      T found = -(T)0;
      for (i64 i = 0; i < n; ++i) found += x[i];
      return found;
    }
    if (n > 128) {
      const i64 half = n / 2 - n / 2 % 8;
      return sum(x, half) + sum(x + half, n - half);
    }
    lanes r = *(const lanes*)x;
    i64 i = 8;
    for (; i < n - n % 8; i += 8) r += *(const lanes*)(x + i);
    T found = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) found += x[i];
    return found;
  }
  template <bool LEAST> static T extreme(const one* x, i64 n, int* odd) {
    typedef decltype(lanes() < lanes()) truths;
    lanes r[4];
    truths is_nan = {};
    for (int k = 0; k < 4; ++k) r[k] = x[0] - lanes{};
    i64 i = 0;
    for (; i + 32 <= n; i += 32) {
      for (int k = 0; k < 4; ++k) {
        const lanes v = *(const lanes*)(x + i + 8 * k);
        is_nan |= v != v;
        r[k] = (LEAST ? v < r[k] : v > r[k]) ? v : r[k];
      }
    }
    T found = x[0];
    int bad = 0;
    for (int k = 0; k < 8; ++k) {
      bad |= is_nan[k] != 0;
      for (int j = 0; j < 4; ++j) {
        found = (LEAST ? r[j][k] < found : r[j][k] > found) ? r[j][k] : found;
      }
    }
    for (; i < n; ++i) {
      bad |= x[i] != x[i];
      found = (LEAST ? x[i] < found : x[i] > found) ? x[i] : found;
    }
    *odd |= bad | (found == 0);
    return found;
  }
};
// === behind it
// p, n: addresses, and numbers. sizes, strides: of the outer dimensions, slowest first; the last
// has the rows, of `cols` elements; sums have pieces [begin, end) for sizes, and for strides where
// each goes. numpy: addresses of NumPy's loops, and of what they are given. odd: for the answer.
struct work {
  char* const* p;
  const value_slot* n;
  const i64 *sizes, *strides;
  i64 ndim, cols;
  void* const* numpy;
  int* odd;
};
static const i64 inner[OPERANDS] = {INNER};
extern "C" __attribute__((visibility("default")))
void chain(char*, const char*, const void* given, i64 first, i64 last) {
  static const i64 still[OPERANDS] = {};
  const work& w = *(const work*)given;
  const i64 rows = w.ndim ? w.sizes[w.ndim - 1] : 1, cols = w.cols;
  const i64* s = w.ndim ? w.strides + (w.ndim - 1) * OPERANDS : still;
  const bool has_rows = OF_ROW || cols < TILE;
  const i64 high = !has_rows ? 1 : cols < TILE ? TILE / cols : 1, wide = has_rows ? cols : TILE;
  const i64 down = (rows + high - 1) / high, across = (cols + wide - 1) / wide;
  const i64 most = wide < TILE ? TILE : wide;
  const i64 nbytes = 8 * (IN_SCRATCH * most + OF_ROW * TILE);
  char* scratch = nbytes ? (char*)aligned_alloc(64, nbytes) : nullptr;
  for (i64 unit = first; unit < last; ++unit) {
    i64 rest = unit;
    const i64 c = rest % across * wide;
    rest /= across;
    const i64 r = rest % down * high;
    rest /= down;
    char* q[OPERANDS];
    for (int k = 0; k < OPERANDS; ++k) q[k] = w.p[k] + r * s[k] + c * inner[k];
    for (i64 d = w.ndim - 2; d >= 0; --d) {
      for (int k = 0; k < OPERANDS; ++k) q[k] += rest % w.sizes[d] * w.strides[d * OPERANDS + k];
      rest /= w.sizes[d];
    }
    const i64 m = rows - r < high ? rows - r : high, n = cols - c < wide ? cols - c : wide;
    if (tile(q, w.n, s, m, n, most, scratch, w.numpy)) {
      *w.odd = 1;
      break;
    }
  }
  free(scratch);
}
#if HAS_SUMS  // of runs of memory, a piece at a time
static sums_found halves(const work& w, i64 begin, i64 n, char* scratch) {
  if (n > TILE) {
    const i64 half = n / 2 - n / 2 % 8;
    sums_found found = halves(w, begin, half, scratch);
    const sums_found other = halves(w, begin + half, n - half, scratch);
    found.add(other);
    return found;
  }
  static const i64 still[OPERANDS] = {};
  char* q[OPERANDS];
  for (int k = 0; k < OPERANDS; ++k) q[k] = w.p[k] + begin * inner[k];
  if (tile(q, w.n, still, 1, n, TILE, scratch, w.numpy)) *w.odd = 1;
  sums_found found;
  found.take(scratch);
  return found;
}
extern "C" __attribute__((visibility("default")))
void sums(char*, const char*, const void* given, i64 first, i64 last) {
  const work& w = *(const work*)given;
  char* scratch = (char*)aligned_alloc(64, 8 * TILE * (OF_ROW + IN_SCRATCH));
  for (i64 unit = first; unit < last; ++unit) {
    const i64 begin = w.sizes[2 * unit], end = w.sizes[2 * unit + 1];
    const sums_found found = halves(w, begin, end - begin, scratch);
    found.give(w.strides, unit);
  }
  free(scratch);
}
#endif
