// Loops of family where: kernels/cuda/where.cu. Values are copied as words of their size.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/where.h"

template <class T, class W>
static void where_loop(char* const* data, const i64* step, i64 n, const Scalar*) {
  typedef acc<T> A;
  const u8* condition = (const u8*)data[1];
  const bool one_condition = !step[1], one_a = !step[2], one_b = !step[3];
  // A single value for all elements. It has the type in which T is computed.
  const auto one = [](const char* at) { return bits_as<W>(cast<T>(*(const A*)at)); };
  const W *a = (const W*)data[2], *b = (const W*)data[3];
  W* out = (W*)data[0];
  if (one_condition) {
    // the result of `widen` for a b8
    const bool is_first = *(const u32*)data[1] != 0;
    const W* from = is_first ? a : b;
    if (is_first ? one_a : one_b) {
      const W value = one((const char*)from);
      for (i64 i = 0; i < n; ++i) out[i] = value;
    } else {
      memmove(out, from, n * sizeof(W));
    }
  } else if (one_a && one_b) {
    const W x = one(data[2]), y = one(data[3]);
    for (i64 i = 0; i < n; ++i) out[i] = op::where::of(condition[i] != 0, x, y);
  } else if (one_a) {
    const W x = one(data[2]);
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) out[i] = op::where::of(condition[i] != 0, x, b[i]);
  } else if (one_b) {
    const W y = one(data[3]);
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) out[i] = op::where::of(condition[i] != 0, a[i], y);
  } else {
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) out[i] = op::where::of(condition[i] != 0, a[i], b[i]);
  }
}

static const abi::LoopEntry loops[] = {
#define X(T, W) \
  {"where", {code_of<b8>, code_of<T>, code_of<T>}, code_of<T>, code_of<T>, 3, 0, where_loop<T, W>},
    X(b8, u8) X(u8, u8) X(i8, u8) X(u16, u16) X(i16, u16) X(u32, u32) X(i32, u32) X(u64, u64)
    X(i64, u64) X(f16, u16) X(bf16, u16) X(f32, u32) X(f64, u64) X(c64, u64) X(c128, w128)
#undef X
};
extern const abi::Family where = {"where", loops, true};

}  // namespace CAPABILITY
