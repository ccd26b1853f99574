// out = x on one side of a diagonal, and zeros on the other.                      family: triangle
//
// Shapes   matrices in the last two dimensions of x and out, of any strides; out may be x.
// Types    elements are copied as words of their size.
// Order    rows are independent.
#include "copy_plan.h"

namespace CAPABILITY {
namespace copies {

struct Triangle {
  const Array *x, *out;
  i64 shift;
  bool is_lower;
};

template <int ITEM>
static void part_of_row(char* to, i64 to_step, const char* from, i64 from_step, i64 n) {
  for (i64 i = 0; i < n; ++i)
    *(word<ITEM>*)(to + i * to_step) =
        from ? *(const word<ITEM>*)(from + i * from_step) : word<ITEM>{};
}

// Write n elements of a row; zeros if `from` is null.
static void move_row(char* to, i64 to_step, const char* from, i64 from_step, i64 n, i64 item) {
  if (to_step == item && !from) {
    memset(to, 0, n * item);
  } else if (to_step == item && from_step == item) {
    if (to != from) memcpy(to, from, n * item);
  } else {
    switch (item) {
      case 1: return part_of_row<1>(to, to_step, from, from_step, n);
      case 2: return part_of_row<2>(to, to_step, from, from_step, n);
      case 4: return part_of_row<4>(to, to_step, from, from_step, n);
      case 8: return part_of_row<8>(to, to_step, from, from_step, n);
      case 16: return part_of_row<16>(to, to_step, from, from_step, n);
    }
  }
}

static void rows_of_triangle(const Triangle& t, i64 first, i64 last) {
  const Array &x = *t.x, &out = *t.out;
  const int d = out.ndim;
  const i64 columns = out.shape[d - 1], to_step = out.stride[d - 1], from_step = x.stride[d - 1];
  for (i64 number = first; number < last; ++number) {
    i64 rest = number, row = 0, to = 0, from = 0;
    for (int k = d - 2; k >= 0; --k) {
      const i64 index = rest % out.shape[k];
      rest /= out.shape[k];
      to += index * out.stride[k], from += index * x.stride[k];
      if (k == d - 2) row = index;
    }
    // the elements before `cut` are on the lower side
    const i64 cut = between(0, row + t.shift + t.is_lower, columns);
    char* begin = out.data + to;
    const char* source = x.data + from;
    char* behind = begin + cut * to_step;
    move_row(begin, to_step, t.is_lower ? source : nullptr, from_step, cut, out.itemsize);
    move_row(behind, to_step, t.is_lower ? nullptr : source + cut * from_step, from_step,
             columns - cut, out.itemsize);
  }
}

// (x, out, shift) -> 0; or 1, with no element written, if NumPy must do it.
template <bool LOWER> static i64 triangle(const Call& call) {
  const Array &x = call.array[0], &out = call.array[1];
  if (x.dtype < 0 || x.dtype != out.dtype || x.ndim != out.ndim || out.ndim < 2) return 1;
  for (int d = 0; d < out.ndim; ++d)
    if (x.shape[d] != out.shape[d]) return 1;
  if (!out.size) return 0;
  Triangle t = {&x, &out, call.integer[0], LOWER};
  const i64 columns = out.shape[out.ndim - 1], rows = out.size / columns;
  if (out.size * out.itemsize < PARALLEL_FROM) {
    rows_of_triangle(t, 0, rows);
  } else {
    const i64 step = (UNIT_BYTES / 8) / (columns * out.itemsize);
    call.share(as_body(rows_of_triangle), &t, rows, step < 1 ? 1 : step);
  }
  return 0;
}

}  // namespace copies

static const abi::FunctionEntry functions[] = {
    {"lower", copies::triangle<true>},
    {"upper", copies::triangle<false>},
};
extern const abi::Family triangle = {"triangle", functions};

}  // namespace CAPABILITY
