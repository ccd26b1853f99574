// The most frequent element of rows. Included by order.cpp.
// A row is sorted. Of its longest runs of equal elements, the first one is chosen, and of this run
// the last element. Every NaN is a run of its own.

struct Modes {
  const char* x;
  char* values;
  i64* places;
  i64 n;
  i64 answer;
};

template <class T> static inline bool are_equal(T a, T b) {
  if constexpr (is_half<T>) {
    return to_float(a) == to_float(b);
  } else {
    return a == b;
  }
}

// The end of the first one of the longest runs in a sorted row.
template <class T> static i64 last_of_longest(const T* sorted, i64 n) {
  i64 found = 0, most = 1, length = 1;
  for (i64 i = 1; i < n; ++i) {
    length = are_equal(sorted[i], sorted[i - 1]) ? length + 1 : 1;
    const bool is_longer = length > most;
    found = is_longer ? i : found, most = is_longer ? length : most;
  }
  return found;
}

template <class T> static void mode_of_rows(Modes& m, i64 first, i64 last) {
  char* memory = (char*)malloc(m.n * (sizeof(i64) + sizeof(T)) + memory_of_sort<T>(m.n));
  if (!memory) return note(&m.answer, NO_MEMORY);
  i64* places = (i64*)memory;
  char* const room = memory + m.n * sizeof(i64);
  T* sorted = (T*)(room + memory_of_sort<T>(m.n));
  for (i64 row = first; row < last; ++row) {
    const Radix r = {m.x + row * m.n * (i64)sizeof(T), (char*)sorted, places, m.n};
    m.n < SHORT_ROW ? sort_short_row<T>(r, 0) : sort_row<T>(r, 0, room);
    const i64 found = last_of_longest(sorted, m.n);
    m.places[row] = places[found], ((T*)m.values)[row] = sorted[found];
  }
  free(memory);
}

// Arrays: values (rows), places (rows), x.
template <class T> static i64 mode_all(const Call& call) {
  const abi::Array& x = call.array[2];
  Modes m = {x.data, call.array[0].data, (i64*)call.array[1].data, x.shape[1]};
  call.share(as_body(mode_of_rows<T>), &m, x.shape[0],
             m.n < SHORT_ROW ? LONG / 16 / (m.n + 1) + 1 : 1);
  return m.answer;
}
