// Leaves of reductions. A leaf consists of an operation on two elements and a function that is
// applied to each element first.
#ifndef GPUTENSOR_LEAVES_H
#define GPUTENSOR_LEAVES_H

#include "reduction.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

using abi::Array;

// A parameter of `finish`: the number of elements per output.
constexpr double COUNT = __builtin_nan("");

// 32 bytes of T: the number of lanes is equal for all capabilities and register widths.
template <class T> struct lanes {
  static constexpr int WIDTH = 32 / sizeof(T);
  typedef T type __attribute__((vector_size(32)));
  typedef T loaded __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
  static type load(const T* x) { return *(const loaded*)x; }
  static type all(T value) {
    type found;
    for (int k = 0; k < WIDTH; ++k) found[k] = value;
    return found;
  }

  // A number for each lane. The numbers are integers as wide as T.
  template <int SIZE, class = void> struct integer { typedef signed char type; };
  template <class N> struct integer<2, N> { typedef short type; };
  template <class N> struct integer<4, N> { typedef int type; };
  template <class N> struct integer<8, N> { typedef long long type; };
  typedef typename integer<sizeof(T)>::type number;
  typedef number numbers __attribute__((vector_size(32)));
  static numbers in_order() {
    numbers found;
    for (int k = 0; k < WIDTH; ++k) found[k] = (number)k;
    return found;
  }
};

template <class T> constexpr T highest_of() {
  if constexpr (is_real<T>) {
    return (T)__builtin_inf();
  } else {
    return (T)(~(u64)0 >> (64 - 8 * sizeof(T) + is_signed_integer<T>));
  }
}
template <class T> constexpr T lowest_of() {
  if constexpr (is_real<T>) {
    return -(T)__builtin_inf();
  } else {
    return is_signed_integer<T> ? (T)((u64)1 << (8 * sizeof(T) - 1)) : (T)0;
  }
}

// OP::identity<T>, OP::join(a, b) and OP::map(x, param), for numbers and for vectors.
template <class OP, class T> struct leaf_of {
  typedef lanes<T> V;
  typedef typename V::type vector;
  static constexpr i64 WIDTH = V::WIDTH, GROUP = 8 * WIDTH, BLOCK = 1024;

  // The results of blocks are merged in pairs, like the digits of a binary counter. There are fewer
  // than 2^MOST blocks.
  template <int MOST> struct Blocks {
    vector level[MOST];
    int depth = 0;

    // number: of the block; lane: eight accumulators
    void add(u64 number, const vector* lane) {
      vector made =
          OP::join(OP::join(OP::join(lane[0], lane[4]), OP::join(lane[2], lane[6])),
                   OP::join(OP::join(lane[1], lane[5]), OP::join(lane[3], lane[7])));
      for (u64 bits = number; bits & 1; bits >>= 1) made = OP::join(level[--depth], made);
      level[depth++] = made;
    }
    vector all() {
      vector found = level[--depth];
      while (depth) found = OP::join(level[--depth], found);
      return found;
    }
  };

  // Combine `all` with n elements. If there are fewer than WIDTH, elements before x are read but
  // not used.
  static T ended(vector all, const T* x, i64 n, T param) {
    i64 i = 0;
    for (; n - i >= WIDTH; i += WIDTH) all = OP::join(all, OP::map(V::load(x + i), param));
    const typename V::numbers order = V::in_order();
    if (i < n) {  // the last vector, in which only some lanes are new
      const auto is_new = order >= (typename V::number)(WIDTH - (n - i));
      const vector none = V::all(OP::template identity<T>);
      all = OP::join(all, is_new ? OP::map(V::load(x + n - WIDTH), param) : none);
    }
#pragma GCC unroll 8
    for (int half = WIDTH / 2; half; half /= 2)
      all = OP::join(all, __builtin_shuffle(all, order + (typename V::number)half));
    return OP::join(OP::template identity<T>, all[0]);
  }

  // Not inlined: the compiler may exchange operands, so two copies could select different NaN.
  __attribute__((noinline)) static T of_few(const T* x, i64 n, T param) {
    T found = OP::template identity<T>;
    for (i64 i = 0; i < n; ++i) found = OP::join(found, OP::map(x[i], param));
    return found;
  }

  static T of_row(const T* x, i64 n, T param) {
    if (n < WIDTH) return of_few(x, n, param);
    if (n < GROUP) return ended(V::all(OP::template identity<T>), x, n, param);
    Blocks<48> blocks;
    const i64 whole = n - n % GROUP;
    for (i64 i = 0, number = 0; i < whole; ++number) {
      const i64 end = whole - i < BLOCK ? whole : i + BLOCK;
      vector a[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) a[k] = OP::map(V::load(x + i + k * WIDTH), param);
      for (i += GROUP; i < end; i += GROUP) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k)
          a[k] = OP::join(a[k], OP::map(V::load(x + i + k * WIDTH), param));
      }
      blocks.add(number, a);
    }
    return ended(blocks.all(), x + whole, n - whole, param);
  }

  static void rows(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char* param) {
    for (i64 r = 0; r < rows; ++r)
      ((T*)acc)[r] = of_row((const T*)(x + r * row_step), n, param ? ((const T*)param)[r] : T{});
  }

  static void columns(char* acc, const char* const* x, int count, i64 n, const char* param) {
    T* to = (T*)acc;
    const T *a = (const T*)x[0], *p = param ? (const T*)param : to;
    if (count == 1) {
#pragma GCC ivdep
      for (i64 j = 0; j < n; ++j) to[j] = OP::join(to[j], OP::map(a[j], p[j]));
      return;
    }
    const T *b = (const T*)x[1], *c = (const T*)x[2], *d = (const T*)x[3];
    if (count == 4) {
#pragma GCC ivdep
      for (i64 j = 0; j < n; ++j) {
        const T q = p[j];
        to[j] = OP::join(to[j], OP::join(OP::join(OP::map(a[j], q), OP::map(b[j], q)),
                                         OP::join(OP::map(c[j], q), OP::map(d[j], q))));
      }
      return;
    }
    const T *e = (const T*)x[4], *f = (const T*)x[5], *g = (const T*)x[6], *h = (const T*)x[7];
#pragma GCC ivdep
    for (i64 j = 0; j < n; ++j) {
      const T q = p[j];
      const T first = OP::join(OP::join(OP::map(a[j], q), OP::map(b[j], q)),
                               OP::join(OP::map(c[j], q), OP::map(d[j], q)));
      const T second = OP::join(OP::join(OP::map(e[j], q), OP::map(f[j], q)),
                                OP::join(OP::map(g[j], q), OP::map(h[j], q)));
      to[j] = OP::join(to[j], OP::join(first, second));
    }
  }

  static void merge(char* into, const char* from, i64 n) {
    T* to = (T*)into;
    const T* x = (const T*)from;
#pragma GCC ivdep
    for (i64 j = 0; j < n; ++j) to[j] = OP::join(to[j], x[j]);
  }

  static void clear(char* acc, i64 n) {
    for (i64 j = 0; j < n; ++j) ((T*)acc)[j] = OP::template identity<T>;
  }
};

template <class T> struct divided {
  static void finish(char* acc, i64 n, double number, const char*) {
    for (i64 j = 0; j < n; ++j) ((T*)acc)[j] /= (T)number;
  }
};
template <class T> struct as_they_are {
  static constexpr void (*finish)(char*, i64, double, const char*) = nullptr;
};

template <class OP, class T, template <class> class END = as_they_are>
constexpr Leaf leaf = {code_of<T>, code_of<T>, sizeof(T), sizeof(T),
                       leaf_of<OP, T>::rows, leaf_of<OP, T>::columns, leaf_of<OP, T>::merge,
                       leaf_of<OP, T>::clear, END<T>::finish};

template <class X, class = void> constexpr bool has_lanes = false;
template <class X> constexpr bool has_lanes<X, decltype((void)((X*)nullptr)[0][0])> = true;

// Sums and products of vectors. Of two NaN, the result is the first one. Without this code the
// compiler could exchange operands of commutative operations.
#if defined(__x86_64__)
#define IN_ORDER(NAME, SIGN, OP)                                                           \
  template <class V> static V NAME(V first, V second) {                                    \
    typedef __typeof__(first[0] + first[0]) element;                                       \
    V made;                                                                                \
    if constexpr (same<element, f32>) {                                                    \
      asm(OP "ps %2, %1, %0" : "=v"(made) : "v"(first), "vm"(second));                     \
    } else if constexpr (same<element, f64>) {                                             \
      asm(OP "pd %2, %1, %0" : "=v"(made) : "v"(first), "vm"(second));                     \
    } else {                                                                               \
      made = first SIGN second;                                                            \
    }                                                                                      \
    return made;                                                                           \
  }
#else
#define IN_ORDER(NAME, SIGN, OP) \
  template <class V> static V NAME(V first, V second) { return first SIGN second; }
#endif
IN_ORDER(ordered_sum, +, "vadd")
IN_ORDER(ordered_product, *, "vmul")
#undef IN_ORDER

struct add {
  template <class T> static constexpr T identity = 0;
  template <class X> static X join(X a, X b) {
    if constexpr (has_lanes<X>) {
      return ordered_sum(a, b);
    } else {
      return a + b;
    }
  }
  template <class X, class T> static X map(X x, T) { return x; }
};

struct add_known : add {
  template <class X, class A> static X map(X x, A) { return x == x ? x : X{}; }
};

// NaN, if there is one
template <bool IS_MOST> struct extreme {
  template <class A> static constexpr A identity = IS_MOST ? lowest_of<A>() : highest_of<A>();
  template <class X> static X join(X a, X b) {
    if constexpr (IS_MOST) {
      return ((b > a) | (b != b)) ? b : a;
    } else {
      return ((b < a) | (b != b)) ? b : a;
    }
  }
  template <class X, class A> static X map(X x, A) { return x; }
};

// Arrays: x, out. Integers: a mask of the reduced dimensions. COMPLEX: x is complex, and out too if
// the parts are kept.
template <const Leaf& LEAF, Complex COMPLEX> i64 reduced(const Call& call) {
  const Array &x = call.array[0], &out = call.array[1];
  const bool has_parts =
      x.dtype >= abi::c64 && (COMPLEX == PARTS_REDUCED || out.dtype >= abi::c64);
  const Reduction how = {&LEAF, has_parts ? COMPLEX : AS_IT_IS, COUNT, nullptr};
  return run_reduction(how, x, out, (u64)call.integer[0], call.share);
}

}  // namespace CAPABILITY

#endif
