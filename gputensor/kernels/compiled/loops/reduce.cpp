// Leaves of family reduce: sums, products, extremes, and tests for nonzero elements.
//
// Types    f16 and bf16 in f32, integers in 64 bits, extremes in their own type; reduction.cpp
//          casts.
// Order    of a run of n elements: blocks of 1024 in eight vectors, merged in pairs; the rest one
//          vector at a time. Finally the halves of the vector are added repeatedly. Fewer elements
//          than a vector are added one by one. A vector has 32 bytes for every capability.
// Error    of a sum, in halves of an ulp of the sum of magnitudes: at most 22 (f64: 38) for a
//          block, and log2 of the number of blocks.
// Numbers  NaN propagates through extremes and counts as true. A sum of only -0.0 is 0.0, as in
//          PyTorch, because it starts from 0.0.
#include "leaves.h"

namespace CAPABILITY {

struct multiply {
  template <class A> static constexpr A identity = 1;
  template <class X> static X join(X a, X b) { return a * b; }
  template <class X, class A> static X map(X x, A) { return x; }
};

// Products of complex numbers. As in PyTorch, they begin with 1. Element i of a run is multiplied
// to product i % (WAYS * WIDTH). Then these products and the last elements are multiplied.
template <class P> struct complex_products {
  typedef lanes<P> V;
  typedef typename V::type vector;
  static constexpr i64 WIDTH = V::WIDTH, WAYS = 4, GROUP = WAYS * WIDTH;
  template <class X> struct number { X re, im; };
  typedef number<P> Number;

  template <class X> static number<X> product(number<X> a, number<X> b) {
    return {a.re * b.re + -a.im * b.im, a.re * b.im + a.im * b.re};  // Note [Sums of products]
  }
  static number<vector> load(const P* x) {
    const vector first = V::load(x), second = V::load(x + WIDTH);
    const typename V::numbers even = 2 * V::in_order();
    return {__builtin_shuffle(first, second, even), __builtin_shuffle(first, second, even + 1)};
  }

  static Number of_row(const Number* x, i64 n) {
    Number found = {1, 0};
    i64 i = 0;
    if (n >= GROUP) {
      number<vector> all[WAYS];
      for (auto& way : all) way = {V::all(1), V::all(0)};
      for (; i + GROUP <= n; i += GROUP) {
#pragma GCC unroll 4
        for (int k = 0; k < WAYS; ++k)
          all[k] = product(all[k], load((const P*)(x + i + k * WIDTH)));
      }
      all[0] = product(product(all[0], all[1]), product(all[2], all[3]));
      for (int k = 0; k < WIDTH; ++k) found = product(found, {all[0].re[k], all[0].im[k]});
    }
    for (; i < n; ++i) found = product(found, x[i]);
    return found;
  }

  static void rows(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char*) {
    for (i64 r = 0; r < rows; ++r)
      ((Number*)acc)[r] = of_row((const Number*)(x + r * row_step), n);
  }
  static void columns(char* acc, const char* const* x, int count, i64 n, const char*) {
    for (int k = 0; k < count; ++k) merge(acc, x[k], n);
  }
  static void merge(char* into, const char* from, i64 n) {
    Number* to = (Number*)into;
#pragma GCC ivdep
    for (i64 j = 0; j < n; ++j) to[j] = product(to[j], ((const Number*)from)[j]);
  }
  static void clear(char* acc, i64 n) {
    for (i64 j = 0; j < n; ++j) ((Number*)acc)[j] = {1, 0};
  }
};
template <class P, byte CODE, class OF = complex_products<P>>
constexpr Leaf complex_product = {CODE, CODE, 2 * sizeof(P), 2 * sizeof(P),
                                  OF::rows, OF::columns, OF::merge, OF::clear, nullptr};

// --- truth --------------------------------------------------------------------------------------

// The bits of a U that make an element true. The sign bit of a float is not among them.
template <class U, U MASK, bool IS_ALL> struct truth {
  typedef lanes<U> V;
  // Nonzero if an element decides the result.
  template <class X> static auto decides(X x) {
    if constexpr (IS_ALL) {
      return (x & MASK) == 0;
    } else {
      return (x & MASK) != 0;
    }
  }

  static bool of_row(const U* x, i64 n) {
    constexpr i64 GROUP = 8 * V::WIDTH;
    i64 i = 0;
    while (n - i >= GROUP) {
      auto found = decides(V::load(x + i));
      const i64 end = i + (n - i < 16 * GROUP ? (n - i) / GROUP : 16) * GROUP;
      for (; i < end; i += GROUP) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) found |= decides(V::load(x + i + k * V::WIDTH));
      }
      bool any = false;
      for (int k = 0; k < V::WIDTH; ++k) any |= found[k] != 0;
      if (any) return true;
    }
    bool any = false;
    for (; i < n; ++i) any |= decides(x[i]);
    return any;
  }

  // Accumulators are 1 if all elements are true (any: if one is true).
  static void rows(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char*) {
    for (i64 r = 0; r < rows; ++r) acc[r] = of_row((const U*)(x + r * row_step), n) != IS_ALL;
  }
  static void columns(char* acc, const char* const* x, int count, i64 n, const char*) {
    for (int k = 0; k < count; ++k) {
      const U* row = (const U*)x[k];
#pragma GCC ivdep
      for (i64 j = 0; j < n; ++j) {
        const u8 is_true = (row[j] & MASK) != 0;
        acc[j] = IS_ALL ? acc[j] & is_true : acc[j] | is_true;
      }
    }
  }
  static void merge(char* into, const char* from, i64 n) {
    for (i64 j = 0; j < n; ++j) into[j] = IS_ALL ? into[j] & from[j] : into[j] | from[j];
  }
  static void clear(char* acc, i64 n) { memset(acc, IS_ALL, n); }
};
template <class U, U MASK, bool IS_ALL>
constexpr Leaf truth_leaf = {abi::N_DTYPES, abi::b8, sizeof(U), 1,
                             truth<U, MASK, IS_ALL>::rows, truth<U, MASK, IS_ALL>::columns,
                             truth<U, MASK, IS_ALL>::merge, truth<U, MASK, IS_ALL>::clear, nullptr};

// The number of elements that are not 0.
template <class U, U MASK> struct count {
  typedef lanes<U> V;
  static i64 of_row(const U* x, i64 n) {
    constexpr i64 MOST = 128 * V::WIDTH;  // end before an 8-bit lane overflows
    i64 found = 0, i = 0;
    while (n - i >= V::WIDTH) {
      auto seen = (V::load(x + i) & MASK) != 0;
      const i64 end = i + (n - i < MOST ? (n - i) / V::WIDTH * V::WIDTH : MOST);
      i += V::WIDTH;
#pragma GCC unroll 4
      for (; i < end; i += V::WIDTH) seen += (V::load(x + i) & MASK) != 0;
      for (int k = 0; k < V::WIDTH; ++k) found -= seen[k];
    }
    for (; i < n; ++i) found += (x[i] & MASK) != 0;
    return found;
  }
  static void rows(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char*) {
    for (i64 r = 0; r < rows; ++r) ((i64*)acc)[r] = of_row((const U*)(x + r * row_step), n);
  }
  static void columns(char* acc, const char* const* x, int count, i64 n, const char*) {
    i64* to = (i64*)acc;
    for (i64 j = 0; j < n; j += 64) {
      U some[64] = {};
      const i64 width = n - j < 64 ? n - j : 64;
      for (int k = 0; k < count; ++k) {
        const U* row = (const U*)x[k] + j;
        for (i64 c = 0; c < width; ++c) some[c] += (row[c] & MASK) != 0;
      }
      for (i64 c = 0; c < width; ++c) to[j + c] += some[c];
    }
  }
};
template <class U, U MASK>
constexpr Leaf count_leaf = {abi::N_DTYPES, abi::i64_, sizeof(U), 8,
                             count<U, MASK>::rows, count<U, MASK>::columns,
                             leaf_of<add, i64>::merge, leaf_of<add, i64>::clear, nullptr};

// --- extremes of 16-bit floats, and both extremes ------------------------------------------------

// Extremes of f16 or bf16 as integers of the same order, without a cast. INFINITE: the bits of inf.
template <bool IS_MOST, i16 INFINITE> struct extreme_half : extreme<IS_MOST> {
  // NaN precedes all numbers: the greatest integer for a maximum, the smallest for a minimum.
  static constexpr i16 NONE = IS_MOST ? 0x7fff : -0x8000;
  // The NaN that a cast from f32 makes: quiet, without a sign.
  static constexpr i16 NAN_BITS = INFINITE | (INFINITE & -INFINITE) >> 1;
  template <class X, class A> static X map(X x, A) {
    const X key = x ^ ((x >> 15) & (i16)0x7fff);
    return (x & (i16)0x7fff) > INFINITE ? X{} + NONE : key;
  }
  static void finish(char* acc, i64 n, double, const char*) {
    i16* to = (i16*)acc;
    for (i64 j = 0; j < n; ++j)
      to[j] = to[j] == NONE ? NAN_BITS : (i16)(to[j] ^ ((to[j] >> 15) & 0x7fff));
  }
};
template <bool IS_MOST, i16 INFINITE, byte CODE, class OP = extreme_half<IS_MOST, INFINITE>>
constexpr Leaf half_leaf = {abi::N_DTYPES, CODE, 2, 2, leaf_of<OP, i16>::rows,
                            leaf_of<OP, i16>::columns, leaf_of<OP, i16>::merge,
                            leaf_of<OP, i16>::clear, OP::finish};
constexpr i16 INF_f16 = 0x7c00, INF_bf16 = 0x7f80;

// The smallest and the greatest element, beside each other in an accumulator of twice the size.
template <class T, class LEAST, class MOST, byte CODE> struct both {
  typedef leaf_of<LEAST, T> Least;
  typedef leaf_of<MOST, T> Most;
  static void rows(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char*) {
    for (i64 r = 0; r < rows; ++r) of_row((T*)acc + 2 * r, (const T*)(x + r * row_step), n);
  }
  static void of_row(T* to, const T* x, i64 n) {
    typedef typename Least::V V;
    constexpr i64 GROUP = 4 * V::WIDTH;
    const i64 whole = n - n % GROUP;
    if (!whole) {
      to[0] = Least::of_row(x, n, T{}), to[1] = Most::of_row(x, n, T{});
      return;
    }
    typename V::type least[4], most[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      least[k] = LEAST::map(V::load(x + k * V::WIDTH), T{});
      most[k] = MOST::map(V::load(x + k * V::WIDTH), T{});
    }
    for (i64 i = GROUP; i < whole; i += GROUP) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const typename V::type v = V::load(x + i + k * V::WIDTH);
        least[k] = LEAST::join(least[k], LEAST::map(v, T{}));
        most[k] = MOST::join(most[k], MOST::map(v, T{}));
      }
    }
    to[0] = Least::ended(LEAST::join(LEAST::join(least[0], least[1]),
                                     LEAST::join(least[2], least[3])), x + whole, n - whole, T{});
    to[1] = Most::ended(MOST::join(MOST::join(most[0], most[1]), MOST::join(most[2], most[3])),
                        x + whole, n - whole, T{});
  }
  static void columns(char* acc, const char* const* x, int count, i64 n, const char*) {
    constexpr i64 MOST_COLUMNS = 256;
    T *to = (T*)acc, some[2][MOST_COLUMNS];
    for (i64 j = 0; j < n; j += MOST_COLUMNS) {
      const i64 width = n - j < MOST_COLUMNS ? n - j : MOST_COLUMNS;
      const char* from[EIGHT];
      for (int k = 0; k < count; ++k) from[k] = x[k] + j * sizeof(T);
      for (i64 c = 0; c < width; ++c)
        some[0][c] = to[2 * (j + c)], some[1][c] = to[2 * (j + c) + 1];
      Least::columns((char*)some[0], from, count, width, nullptr);
      Most::columns((char*)some[1], from, count, width, nullptr);
      for (i64 c = 0; c < width; ++c)
        to[2 * (j + c)] = some[0][c], to[2 * (j + c) + 1] = some[1][c];
    }
  }
  static void merge(char* into, const char* from, i64 n) {
    T* to = (T*)into;
    const T* x = (const T*)from;
    for (i64 j = 0; j < 2 * n; j += 2)
      to[j] = LEAST::join(to[j], x[j]), to[j + 1] = MOST::join(to[j + 1], x[j + 1]);
  }
  static void clear(char* acc, i64 n) {
    for (i64 j = 0; j < n; ++j)
      ((T*)acc)[2 * j] = LEAST::template identity<T>,
      ((T*)acc)[2 * j + 1] = MOST::template identity<T>;
  }
  static void finish(char* acc, i64 n, double, const char*) {
    if constexpr (CODE != code_of<T>) {
      for (i64 j = 0; j < n; ++j)
        LEAST::finish(acc + 4 * j, 1, 0, nullptr), MOST::finish(acc + 4 * j + 2, 1, 0, nullptr);
    }
  }
};
// The dtype of an accumulator: integers, or complex for 16 bytes.
template <class T>
constexpr byte pair_code = sizeof(T) == 1 ? abi::i16 : sizeof(T) == 2 ? abi::i32 :
                           sizeof(T) == 4 ? abi::i64_ : abi::c128;
template <class T, class LEAST = extreme<false>, class MOST = extreme<true>,
          byte CODE = code_of<T>, class OF = both<T, LEAST, MOST, CODE>>
constexpr Leaf both_leaf = {abi::N_DTYPES, pair_code<T>, sizeof(T), 2 * sizeof(T),
                            OF::rows, OF::columns, OF::merge, OF::clear, OF::finish};
template <i16 INFINITE, byte CODE>
constexpr Leaf both_halves =
    both_leaf<i16, extreme_half<false, INFINITE>, extreme_half<true, INFINITE>, CODE>;

// --- functions ----------------------------------------------------------------------------------

constexpr u16 HALF = 0x7fff;
constexpr u32 FLOAT = 0x7fffffff, TWO_HALVES = 0x7fff7fff;
constexpr u64 DOUBLE = 0x7fffffffffffffff, TWO_FLOATS = 0x7fffffff7fffffff;

#define SUMS(X, T) \
  X("sum " #T, (leaf<add, T>), PARTS_KEPT) X("prod " #T, (leaf<multiply, T>), AS_IT_IS)
#define EXTREMES(X, T)                              \
  X("amax " #T, (leaf<extreme<true>, T>), AS_IT_IS) \
  X("amin " #T, (leaf<extreme<false>, T>), AS_IT_IS) \
  X("aminmax " #T, (both_leaf<T>), AS_IT_IS)
#define HALVES(X, T)                                                          \
  X("amax " #T, (half_leaf<true, INF_##T, abi::T>), AS_IT_IS)                 \
  X("amin " #T, (half_leaf<false, INF_##T, abi::T>), AS_IT_IS)                \
  X("aminmax " #T, (both_halves<INF_##T, abi::T>), AS_IT_IS)
#define TRUTHS(X, U, MASK, NAME)                                \
  X("any " NAME, (truth_leaf<U, MASK, false>), AS_IT_IS)         \
  X("all " NAME, (truth_leaf<U, MASK, true>), AS_IT_IS)          \
  X("count " NAME, (count_leaf<U, MASK>), AS_IT_IS)
#define ALL(X)                                                                         \
  SUMS(X, f32) SUMS(X, f64) SUMS(X, i64)                                               \
  X("prod c64", (complex_product<f32, abi::c64>), AS_IT_IS)                            \
  X("prod c128", (complex_product<f64, abi::c128>), AS_IT_IS)                          \
  X("mean f32", (leaf<add, f32, divided>), PARTS_KEPT)                                 \
  X("mean f64", (leaf<add, f64, divided>), PARTS_KEPT)                                 \
  X("nansum f32", (leaf<add_known, f32>), AS_IT_IS)                                    \
  X("nansum f64", (leaf<add_known, f64>), AS_IT_IS)                                    \
  EXTREMES(X, u8) EXTREMES(X, i8) EXTREMES(X, u16) EXTREMES(X, i16) EXTREMES(X, u32)   \
  EXTREMES(X, i32) EXTREMES(X, u64) EXTREMES(X, i64) EXTREMES(X, f32) EXTREMES(X, f64) \
  HALVES(X, f16) HALVES(X, bf16)                                                       \
  TRUTHS(X, u8, 0xff, "8") TRUTHS(X, u16, 0xffff, "16")                                \
  TRUTHS(X, u32, 0xffffffff, "32") TRUTHS(X, u64, ~(u64)0, "64")                       \
  TRUTHS(X, u16, HALF, "half") TRUTHS(X, u32, FLOAT, "f32")                            \
  TRUTHS(X, u64, DOUBLE, "f64") TRUTHS(X, u32, TWO_HALVES, "c32")                      \
  TRUTHS(X, u64, TWO_FLOATS, "c64")

#define UNWRAP(...) __VA_ARGS__
static const abi::FunctionEntry functions[] = {
#define X(NAME, LEAF, COMPLEX) {NAME, reduced<(UNWRAP LEAF), COMPLEX>},
    ALL(X)
#undef X
};
extern const abi::Family reduce = {"reduce", functions};
}  // namespace CAPABILITY
