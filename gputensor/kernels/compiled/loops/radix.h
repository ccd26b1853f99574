// Sorting of rows. Long rows are sorted by the digits of their keys, the lowest digit first.
// Included by order.cpp.
// The sorted number is the difference of a key and the row's smallest key, combined with the index
// if both fit into 64 bits. So integers of a small range have few digits.

// A 64-bit key and its index, if they do not fit into one number.
struct Apart { u64 key, place; };

struct Radix {
  const char* x;
  char* values;
  i64* places;  // null if only values are requested
  i64 n;
  bool descending;
  i64 answer;
};

constexpr int DIGIT = 11, SHORT_DIGIT = 8;  // bits of a digit, for long rows and for other rows
constexpr i64 LONG_DIGITS = 1 << 14;        // from this number of elements on
constexpr int MOST_DIGITS = 8;

static inline u64 digits_of(u64 x) { return x; }
static inline u64 digits_of(const Apart& x) { return x.key; }

// Sort n numbers by `bits` bits from `low` on. room: memory for n numbers. Returns the address of
// the sorted numbers.
template <class N>
static N* sort_by_digits(N* x, N* room, i64 n, int low, int bits, u32* counts) {
  const int most = n >= LONG_DIGITS ? DIGIT : SHORT_DIGIT, passes = (bits + most - 1) / most;
  if (!passes) return x;
  const int width = (bits + passes - 1) / passes;
  const u64 mask = ((u64)1 << width) - 1;
  memset(counts, 0, passes * (sizeof(u32) << width));
  for (i64 i = 0; i < n; ++i) {
    const u64 digits = digits_of(x[i]) >> low;
    for (int p = 0; p < passes; ++p) ++counts[(p << width) + ((digits >> p * width) & mask)];
  }
  for (int p = 0; p < passes; ++p) {
    u32* next = counts + (p << width);
    const int at = low + p * width;
    if (next[(digits_of(x[0]) >> at) & mask] == (u32)n) continue;  // all digits are equal
    u32 before = 0;
    for (u64 digit = 0; digit <= mask; ++digit) {
      const u32 count = next[digit];
      next[digit] = before, before += count;
    }
    for (i64 i = 0; i < n; ++i) room[next[(digits_of(x[i]) >> at) & mask]++] = x[i];
    N* sorted = room;
    room = x, x = sorted;
  }
  return x;
}

template <class T> static inline T value_of(typename key_of<T>::type key) {
  typedef typename key_of<T>::type K;
  return is_signed_integer<T> ? (T)(key ^ (K)1 << (8 * sizeof(K) - 1)) : (T)key;
}

constexpr i64 SHORT_ROW = 512;  // shorter rows are sorted by comparisons

// Write the elements in the order of `numbers`, whose lower half is their index.
template <class T, class N> static void write_row(const Radix& r, i64 row, const N* numbers) {
  const T* x = (const T*)r.x + row * r.n;
  T* values = (T*)r.values + row * r.n;
  i64* places = r.places ? r.places + row * r.n : nullptr;
  for (i64 i = 0; i < r.n; ++i) values[i] = x[(u32)numbers[i]];
  for (i64 i = 0; places && i < r.n; ++i) places[i] = (u32)numbers[i];
}

template <class T> static void sort_short_row(const Radix& r, i64 row) {
  typedef typename key_of<T>::type K;
  const T* x = (const T*)r.x + row * r.n;
  const K turn = r.descending ? ~(K)0 : 0;
  K keys[SHORT_ROW], least = ~(K)0, largest = 0;
  for (i64 i = 0; i < r.n; ++i) {
    keys[i] = key(x[i]) ^ turn;
    least = keys[i] < least ? keys[i] : least, largest = keys[i] > largest ? keys[i] : largest;
  }
  if ((u64)(largest - least) >> 32) {
    typename placed<K>::type numbers[SHORT_ROW];
    for (i64 i = 0; i < r.n; ++i) numbers[i] = with_place(keys[i], i);
    sort(numbers, r.n, most_splits(r.n));
    write_row<T>(r, row, numbers);
  } else {
    u64 numbers[SHORT_ROW];
    for (i64 i = 0; i < r.n; ++i) numbers[i] = (u64)(keys[i] - least) << 32 | (u64)i;
    sort(numbers, r.n, most_splits(r.n));
    write_row<T>(r, row, numbers);
  }
}

template <class T> static void sort_row(const Radix& r, i64 row, char* memory) {
  typedef typename key_of<T>::type K;
  const T* x = (const T*)r.x + row * r.n;
  T* values = (T*)r.values + row * r.n;
  i64* places = r.places ? r.places + row * r.n : nullptr;
  const i64 n = r.n;
  const K turn = r.descending ? ~(K)0 : 0;
  K least = ~(K)0, largest = 0;
  for (i64 i = 0; i < n; ++i) {
    const K one = key(x[i]) ^ turn;
    least = one < least ? one : least, largest = one > largest ? one : largest;
  }
  const int bits = largest == least ? 0 : 64 - __builtin_clzll((u64)(largest - least));
  u32* counts = (u32*)memory;
  memory += sizeof(u32) * MOST_DIGITS << DIGIT;
  if constexpr (!is_half<T> && !is_real<T>) {
    if (!places) {
      u64* keys = (u64*)memory;
      for (i64 i = 0; i < n; ++i) keys[i] = (K)((key(x[i]) ^ turn) - least);
      const u64* sorted = sort_by_digits(keys, keys + n, n, 0, bits, counts);
      for (i64 i = 0; i < n; ++i) values[i] = value_of<T>((K)((K)sorted[i] + least) ^ turn);
      return;
    }
  }
  const int of_place = 64 - __builtin_clzll((u64)n);
  if (bits + of_place <= 64) {
    u64* keys = (u64*)memory;
    for (i64 i = 0; i < n; ++i)
      keys[i] = (u64)(K)((key(x[i]) ^ turn) - least) << of_place | (u64)i;
    const u64* sorted = sort_by_digits(keys, keys + n, n, of_place, bits, counts);
    const u64 mask = ((u64)1 << of_place) - 1;
    for (i64 i = 0; i < n; ++i) values[i] = x[sorted[i] & mask];
    for (i64 i = 0; places && i < n; ++i) places[i] = sorted[i] & mask;
    return;
  }
  Apart* keys = (Apart*)memory;
  for (i64 i = 0; i < n; ++i) keys[i] = {(u64)(K)((key(x[i]) ^ turn) - least), (u64)i};
  const Apart* sorted = sort_by_digits(keys, keys + n, n, 0, bits, counts);
  for (i64 i = 0; i < n; ++i) values[i] = x[sorted[i].place];
  for (i64 i = 0; places && i < n; ++i) places[i] = sorted[i].place;
}

// The bytes of memory that sort_row needs.
template <class T> static inline i64 memory_of_sort(i64 n) {
  if (n < SHORT_ROW) return 0;
  const i64 each = sizeof(typename key_of<T>::type) == 8 ? sizeof(Apart) : sizeof(u64);
  return (sizeof(u32) * MOST_DIGITS << DIGIT) + 2 * n * each;
}

template <class T> static void sort_rows(Radix& r, i64 first, i64 last) {
  if (r.n < SHORT_ROW) {
    for (i64 row = first; row < last; ++row) sort_short_row<T>(r, row);
    return;
  }
  char* memory = (char*)malloc(memory_of_sort<T>(r.n));
  if (!memory) return note(&r.answer, NO_MEMORY);
  for (i64 row = first; row < last; ++row) sort_row<T>(r, row, memory);
  free(memory);
}

// Arrays: values, places or None, x. Numbers: descending.
template <class T> static i64 sort_all(const Call& call) {
  const abi::Array& x = call.array[2];
  Radix r = {x.data, call.array[0].data, (i64*)call.array[1].data, x.shape[1],
             (bool)call.integer[0]};
  call.share(as_body(sort_rows<T>), &r, x.shape[0],
             r.n < SHORT_ROW ? LONG / 16 / (r.n + 1) + 1 : 1);
  return r.answer;
}
