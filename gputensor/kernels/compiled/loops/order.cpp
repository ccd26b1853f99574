// Sorted rows; the first k elements, k-th element, median and mode of rows.          family: order
//
// Shapes   x (rows, n) dense; values and places (rows, k) dense, or (rows, n) if rows are sorted.
// Types    real. An element and its index form one number: the upper half is a key with the order
//          of the elements (NaN is the largest, -0.0 equals 0.0), the lower half is the index. So
//          equal elements are in the order of their indices, and no two numbers are equal.
// Order    the result is unique, so it does not depend on threads. For a long row, the first k of
//          several parts are merged.
#include "matrices.h"

namespace CAPABILITY {

typedef unsigned __int128 u128;

template <class T> struct key_of { typedef u32 type; };
template <> struct key_of<u64> { typedef u64 type; };
template <> struct key_of<i64> { typedef u64 type; };
template <> struct key_of<f64> { typedef u64 type; };
// A key with an index.
template <class K> struct placed { typedef u64 type; };
template <> struct placed<u64> { typedef u128 type; };

template <class T> static inline typename key_of<T>::type key(T given) {
  typedef typename key_of<T>::type K;
  constexpr K TOP = (K)1 << (8 * sizeof(K) - 1);
  if constexpr (is_half<T> || is_real<T>) {
    const auto x = cast<typename acc_of<T>::type>(given) + 0;
    const K bits = bits_as<K>(x), sign = (K)-(K)(bits >> (8 * sizeof(K) - 1));
    return x != x ? (K)~(K)0 : bits ^ (sign | TOP);
  } else if constexpr (is_signed_integer<T>) {
    return (K)given ^ TOP;
  } else {
    return (K)given;
  }
}

template <class K> static inline typename placed<K>::type with_place(K key, i64 place) {
  return (typename placed<K>::type)key << 32 | (u32)place;
}

// --- sorting of distinct numbers ----------------------------------------------------------------

template <class N> static void sink(N* heap, i64 at, i64 n) {
  const N one = heap[at];
  for (i64 child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && heap[child + 1] > heap[child]) ++child;
    if (heap[child] < one) break;
    heap[at] = heap[child];
  }
  heap[at] = one;
}

template <class N> static void sort_by_heap(N* x, i64 n) {
  for (i64 i = n / 2; i-- > 0;) sink(x, i, n);
  for (i64 i = n - 1; i > 0; --i) {
    const N last = x[i];
    x[i] = x[0], x[0] = last;
    sink(x, 0, i);
  }
}

template <class N> static void sort_by_insertion(N* x, i64 n) {
  for (i64 i = 1; i < n; ++i) {
    const N one = x[i];
    i64 to = i;
    for (; to && x[to - 1] > one; --to) x[to] = x[to - 1];
    x[to] = one;
  }
}

constexpr i64 SMALL = 24;  // number of elements below which insertion sort is used
constexpr i64 MOST_INSERTED = 4;  // so many smallest numbers are found by insertion

// Partition by the median of three: smaller numbers before it, larger numbers after it.
template <class N> static i64 split(N* x, i64 n) {
  const i64 middle = n / 2;
  const auto order = [&](i64 a, i64 b) {
    const N low = x[a] < x[b] ? x[a] : x[b], high = x[a] < x[b] ? x[b] : x[a];
    x[a] = low, x[b] = high;
  };
  order(0, middle), order(middle, n - 1), order(0, middle);
  const N pivot = x[middle];
  x[middle] = x[n - 2], x[n - 2] = pivot;
  i64 to = 0;  // without a branch, because half of the predictions would be wrong
  for (i64 i = 0; i < n - 2; ++i) {
    const N one = x[i];
    x[i] = x[to], x[to] = one;
    to += one < pivot;
  }
  x[n - 2] = x[to], x[to] = pivot;
  return to;
}

static inline int most_splits(i64 n) { return 2 * (64 - __builtin_clzll(n | 1)); }

template <class N> static void sort(N* x, i64 n, int left) {
  while (n > SMALL) {
    if (!left--) return sort_by_heap(x, n);
    const i64 at = split(x, n);
    if (at < n - 1 - at) {
      sort(x, at, left);
      x += at + 1, n -= at + 1;
    } else {
      sort(x + at + 1, n - 1 - at, left);
      n = at;
    }
  }
  sort_by_insertion(x, n);
}

// Sort the smallest k of n numbers to the front.
template <class N> static void select_by_insertion(N* x, i64 n, i64 k) {
  sort_by_insertion(x, k);
  for (i64 i = k; i < n; ++i) {
    const N one = x[i];
    if (one > x[k - 1]) continue;
    i64 to = k - 1;
    x[i] = x[to];
    for (; to && x[to - 1] > one; --to) x[to] = x[to - 1];
    x[to] = one;
  }
}

// Move the smallest k of n numbers to the front, in any order. The k-th smallest is x[k - 1].
template <class N> static void select(N* x, i64 n, i64 k) {
  if (k <= MOST_INSERTED) return select_by_insertion(x, n, k);
  int left = most_splits(n);
  i64 place = k - 1;
  while (n > SMALL) {
    if (!left--) return sort_by_heap(x, n);
    const i64 at = split(x, n);
    if (place == at) return;
    if (place < at) {
      n = at;
    } else {
      x += at + 1, n -= at + 1, place -= at + 1;
    }
  }
  sort_by_insertion(x, n);
}

// --- the first k --------------------------------------------------------------------------------

constexpr i64 KEYS = 64;  // elements that are processed at a time

struct First {
  const char* x;
  char* values;
  i64* places;
  i64 rows, n, k, parts;
  bool descending;
  char* found;  // if a row has several parts: the first k of each
  i64 answer;
};

// Write the first k of x[begin] to x[end - 1], in any order, to `best`, which has memory for 2 k +
// KEYS.
template <class T, class N>
static i64 first_of(const T* x, i64 begin, i64 end, i64 k, bool descending, N* best) {
  typedef typename key_of<T>::type K;
  const K turn = descending ? ~(K)0 : 0;
  K keys[KEYS], limit = ~(K)0;  // once there are k keys, only smaller keys are added
  bool has_limit = false;
  i64 count = 0;
  for (i64 first = begin; first < end; first += KEYS) {
    const i64 n = end - first < KEYS ? end - first : KEYS;
    bool any = !has_limit;
    if (n == KEYS) {
      u32 below = 0;
      for (i64 i = 0; i < KEYS; ++i) keys[i] = key(x[first + i]) ^ turn;
      for (i64 i = 0; i < KEYS; ++i) below |= keys[i] < limit;
      any |= below;
    } else {
      for (i64 i = 0; i < n; ++i) keys[i] = key(x[first + i]) ^ turn;
      any = true;
    }
    if (!any) continue;
    for (i64 i = 0; i < n; ++i) {
      best[count] = with_place(keys[i], first + i);
      count += !has_limit || keys[i] < limit;
    }
    if (count >= 2 * k || (!has_limit && count >= k && count >= KEYS)) {
      select(best, count, k);
      count = k, has_limit = true;
      N most = best[0];
      for (i64 i = 1; i < k; ++i) most = best[i] > most ? best[i] : most;
      limit = (K)(most >> 32);
    }
  }
  if (count > k) select(best, count, k), count = k;
  return count;
}

template <class T, class N> static void finish(const First& f, i64 row, N* best) {
  sort(best, f.k, most_splits(f.k));
  const T* x = (const T*)f.x + row * f.n;
  for (i64 i = 0; i < f.k; ++i) {
    const i64 place = (u32)best[i];
    f.places[row * f.k + i] = place;
    ((T*)f.values)[row * f.k + i] = x[place];
  }
}

constexpr i64 ON_STACK = 1024;  // numbers

template <class T> static void first_rows(void* context, i64 first, i64 last) {
  typedef typename placed<typename key_of<T>::type>::type N;
  First& f = *(First*)context;
  N few[ON_STACK];
  const i64 room = 2 * f.k + KEYS;
  N* best = room <= ON_STACK ? few : (N*)malloc(room * sizeof(N));
  if (!best) return note(&f.answer, NO_MEMORY);
  for (i64 unit = first; unit < last; ++unit) {
    const i64 row = unit / f.parts, part = unit % f.parts;
    const i64 begin = f.n * part / f.parts, end = f.n * (part + 1) / f.parts;
    first_of(((const T*)f.x) + row * f.n, begin, end, f.k, f.descending, best);
    if (f.parts == 1) {
      finish<T>(f, row, best);
    } else {
      memcpy((N*)f.found + unit * f.k, best, f.k * sizeof(N));
    }
  }
  if (best != few) free(best);
}

constexpr i64 LONG = 1 << 16, PARTS = 8;  // longest row of one thread

// Arrays: values, places, x. Numbers: descending.
template <class T> static i64 first_k(const Call& call) {
  typedef typename placed<typename key_of<T>::type>::type N;
  First f = {call.array[2].data, call.array[0].data, (i64*)call.array[1].data};
  f.rows = call.array[2].shape[0], f.n = call.array[2].shape[1], f.k = call.array[0].shape[1];
  f.descending = call.integer[0], f.parts = 1;
  if (!f.rows || !f.k) return 0;
  if (f.n >= LONG && f.rows < 2 * PARTS && f.k <= f.n / (16 * PARTS)) f.parts = PARTS;
  if (f.parts > 1) {
    f.found = (char*)malloc(f.rows * f.parts * f.k * sizeof(N));
    if (!f.found) return NO_MEMORY;
  }
  call.share(first_rows<T>, &f, f.rows * f.parts, LONG / 4 * f.parts / f.n + 1);
  for (i64 row = 0; f.parts > 1 && row < f.rows && !f.answer; ++row) {
    N* found = (N*)f.found + row * f.parts * f.k;
    select(found, f.parts * f.k, f.k);
    finish<T>(f, row, found);
  }
  free(f.found);
  return f.answer;
}

// --- the k-th -----------------------------------------------------------------------------------

constexpr int MOST_BITS = 11;  // the bits of a key that select its bin
constexpr i64 FEW = 128, MANY = 512;  // from these numbers of elements on: bins; small bins
constexpr i64 AT_ONCE = 1 << 12;

constexpr i64 KEYS_AT_ONCE = 256;

// Write the keys of the first KEYS_AT_ONCE of n elements, which vectorises. Returns their number.
template <class T, class K> static inline i64 keys_of(const T* x, i64 n, K* keys) {
  if (n >= KEYS_AT_ONCE) {
    for (i64 i = 0; i < KEYS_AT_ONCE; ++i) keys[i] = key(x[i]);
    return KEYS_AT_ONCE;
  }
  for (i64 i = 0; i < n; ++i) keys[i] = key(x[i]);
  return n;
}

// Count the keys by their first bits to find the bin of the k-th key; only the elements of this bin
// are kept.
template <class T> static i64 place_of_kth(const T* x, i64 n, i64 k, void* room) {
  typedef typename key_of<T>::type K;
  typedef typename placed<K>::type N;
  N* kept = (N*)room;
  if (n < FEW) {
    for (i64 i = 0; i < n; ++i) kept[i] = with_place(key(x[i]), i);
    select(kept, n, k + 1);
    return (u32)kept[k];
  }
  const int bits = n > MANY ? MOST_BITS : 8, rest = 8 * sizeof(K) - bits;
  u32 counts[1 << MOST_BITS];
  memset(counts, 0, sizeof(u32) << bits);
  K keys[KEYS_AT_ONCE];
  for (i64 begin = 0; begin < n; begin += KEYS_AT_ONCE) {
    const i64 some = keys_of(x + begin, n - begin, keys);
    for (i64 i = 0; i < some; ++i) ++counts[keys[i] >> rest];
  }
  K bin = 0;
  for (; k >= counts[bin]; ++bin) k -= counts[bin];
  i64 count = 0;
  for (i64 begin = 0; begin < n; begin += KEYS_AT_ONCE) {
    const i64 some = keys_of(x + begin, n - begin, keys);
    for (i64 i = 0; i < some; ++i) {
      kept[count] = with_place(keys[i], begin + i);
      count += keys[i] >> rest == bin;
    }
  }
  select(kept, count, k + 1);
  return (u32)kept[k];
}

template <class T> static inline bool is_nan(T x) {
  if constexpr (is_half<T>) {
    return to_float(x) != to_float(x);
  } else {
    return x != x;
  }
}

// The lower one of two medians. A NaN is the median unless it is ignored.
template <class T> static i64 place_of_median(const T* x, i64 n, bool ignores_nan, void* room) {
  i64 nans = 0;
  for (i64 begin = 0; begin < n; begin += AT_ONCE) {
    u32 some = 0;  // counters of 32 bits vectorise better
    const i64 end = begin + AT_ONCE < n ? begin + AT_ONCE : n;
    for (i64 i = begin; i < end; ++i) some += is_nan(x[i]);
    nans += some;
  }
  if (nans && !ignores_nan) {
    i64 first = 0;
    while (!is_nan(x[first])) ++first;
    return first;
  }
  return place_of_kth(x, n, nans < n ? (n - nans - 1) / 2 : 0, room);
}

enum Statistic { KTH, MEDIAN, NANMEDIAN };

struct Selection {
  const char* x;
  char* values;
  i64* places;
  i64 n, k;
  i64 answer;
};

template <class T, Statistic S> static void select_in_rows(void* context, i64 first, i64 last) {
  typedef typename placed<typename key_of<T>::type>::type N;
  Selection& s = *(Selection*)context;
  N few[ON_STACK];
  void* room = s.n < ON_STACK ? few : malloc((s.n + 1) * sizeof(N));
  if (!room) return note(&s.answer, NO_MEMORY);
  for (i64 row = first; row < last; ++row) {
    const T* x = (const T*)s.x + row * s.n;
    const i64 place = S == KTH ? place_of_kth(x, s.n, s.k, room)
                               : place_of_median(x, s.n, S == NANMEDIAN, room);
    s.places[row] = place, ((T*)s.values)[row] = x[place];
  }
  if (room != few) free(room);
}

// Arrays: values (rows), places (rows), x. Numbers: k, from 0 on.
template <class T, Statistic S> static i64 select_all(const Call& call) {
  const abi::Array& x = call.array[2];
  Selection s = {x.data, call.array[0].data, (i64*)call.array[1].data, x.shape[1],
                 call.integer[0]};
  call.share(select_in_rows<T, S>, &s, x.shape[0], LONG / 4 / s.n + 1);
  return s.answer;
}

#include "radix.h"
#include "mode.h"

static const abi::FunctionEntry functions[] = {
#define X(T) \
  {"first " #T, first_k<T>}, {"sort " #T, sort_all<T>}, {"mode " #T, mode_all<T>}, \
  {"kth " #T, select_all<T, KTH>}, {"median " #T, select_all<T, MEDIAN>}, \
  {"nanmedian " #T, select_all<T, NANMEDIAN>},
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f16) X(bf16) X(f32) X(f64)
#undef X
};
extern const abi::Family order = {"order", functions};

}  // namespace CAPABILITY
