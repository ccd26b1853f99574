// Means and maxima over a given number of windows, which may overlap. Included by pool_windows.cpp.
// columns processed at a time; rows or columns of one partial sum
constexpr i64 LINE = 1024, SHORT = 32;

struct Parts {
  i64 size, out, stride, to;  // strides in bytes
  i64* bounds;                // the begin and the end of each part
  i64 begin(i64 i) const { return bounds[2 * i]; }
  i64 end(i64 i) const { return bounds[2 * i + 1]; }
  i64 count(i64 i) const { return end(i) - begin(i); }
};

struct Adaptive {
  const char* x;
  char* out;
  Parts along[3];  // d, h, w
  i64 channels, channel, channel_to, sample, sample_to;
  bool has_columns, has_lanes;  // adjacent columns; adjacent channels
};

// total[k] = the sum over the rows of a window, for n adjacent lanes. SHORT rows are added at a
// time.
template <class T>
void sum_rows(T* total, const char* x, const Adaptive& a, i64 d, i64 h, i64 n) {
  T some[LINE];
  i64 held = 0;
  for (i64 k = 0; k < n; ++k) total[k] = 0;
  for (i64 i = a.along[0].begin(d); i < a.along[0].end(d); ++i)
    for (i64 j = a.along[1].begin(h); j < a.along[1].end(h); ++j) {
      const T* row = (const T*)(x + i * a.along[0].stride + j * a.along[1].stride);
      if (held) {
#pragma GCC ivdep
        for (i64 k = 0; k < n; ++k) some[k] += row[k];
      } else {
        memcpy(some, row, n * sizeof(T));
      }
      if (++held < SHORT) continue;
      for (i64 k = 0; k < n; ++k) total[k] += some[k];
      held = 0;
    }
  for (i64 k = 0; held && k < n; ++k) total[k] += some[k];
}

// The sum of n numbers, added SHORT at a time.
template <class T> T sum_across(const T* x, i64 n) {
  T total = 0;
  for (i64 first = 0; first < n; first += SHORT) {
    const i64 last = n - first < SHORT ? n : first + SHORT;
    T some = x[first];
    for (i64 k = first + 1; k < last; ++k) some += x[k];
    total += some;
  }
  return total;
}

// A row of windows along w. As many windows are processed at a time as their columns fit into a
// line.
template <class T>
void adapt_row(const Adaptive& a, const char* x, char* out, i64 d, i64 h, i64 rows) {
  const Parts& w = a.along[2];
  T line[LINE];
  for (i64 first = 0; first < w.out;) {
    const i64 begin = w.begin(first);
    i64 last = first;
    while (last < w.out && w.end(last) - begin <= LINE) ++last;
    if (last > first) {
      sum_rows(line, x + begin * sizeof(T), a, d, h, w.end(last - 1) - begin);
      for (; first < last; ++first)
        *(T*)(out + first * w.to) =
            sum_across(line + w.begin(first) - begin, w.count(first)) / (T)(rows * w.count(first));
      continue;
    }
    T sum = 0;  // one window is longer than a line
    for (i64 k = begin; k < w.end(first); k += LINE) {
      const i64 n = w.end(first) - k < LINE ? w.end(first) - k : LINE;
      sum_rows(line, x + k * sizeof(T), a, d, h, n);
      sum += sum_across(line, n);
    }
    *(T*)(out + first * w.to) = sum / (T)(rows * w.count(first));
    ++first;
  }
}

// The channels of a row of windows. Each channel is summed as above.
template <class T>
void adapt_channels(const Adaptive& a, const char* x, char* out, i64 d, i64 h, i64 rows) {
  const Parts& w = a.along[2];
  T column[LINE], some[LINE], chunk[LINE], sum[LINE];
  for (i64 window = 0; window < w.out; ++window) {
    const i64 begin = w.begin(window), end = w.end(window);
    for (i64 lane = 0; lane < a.channels; lane += LINE) {
      const i64 n = a.channels - lane < LINE ? a.channels - lane : LINE;
      const auto add = [n](T* to, const T* from, bool is_first) {
        for (i64 k = 0; k < n; ++k) to[k] = is_first ? from[k] : to[k] + from[k];
      };
      for (i64 c = begin; c < end; ++c) {
        const i64 at = c - begin, of_line = at % LINE;
        sum_rows(column, x + lane * sizeof(T) + c * w.stride, a, d, h, n);
        add(some, column, of_line % SHORT == 0);
        if ((of_line + 1) % SHORT && of_line + 1 < LINE && c + 1 < end) continue;
        add(chunk, some, of_line < SHORT);
        if (of_line + 1 < LINE && c + 1 < end) continue;
        add(sum, chunk, at < LINE);
      }
      for (i64 k = 0; k < n; ++k)
        *(T*)(out + window * w.to + (lane + k) * a.channel_to) =
            sum[k] / (T)(rows * w.count(window));
    }
  }
}

// A row of windows along w: its sample, channel, d and h.
struct Unit {
  i64 sample, channel, d, h;
  Unit(const Adaptive& a, i64 number) {
    h = number % a.along[1].out, number /= a.along[1].out;
    d = number % a.along[0].out, number /= a.along[0].out;
    channel = a.has_lanes ? 0 : number % a.channels;
    sample = a.has_lanes ? number : number / a.channels;
  }
};

template <class T> void adapt(const Adaptive& a, i64 first, i64 last) {
  for (i64 number = first; number < last; ++number) {
    const Unit u(a, number);
    const char* x = a.x + u.sample * a.sample + u.channel * a.channel;
    char* out = a.out + u.sample * a.sample_to + u.channel * a.channel_to + u.d * a.along[0].to +
                u.h * a.along[1].to;
    const i64 rows = a.along[0].count(u.d) * a.along[1].count(u.h);
    if (a.has_lanes) {
      adapt_channels<T>(a, x, out, u.d, u.h, rows);
    } else {
      adapt_row<T>(a, x, out, u.d, u.h, rows);
    }
  }
}

// Read the layouts. Returns false for other arrays.
bool lay_out(Adaptive& a, const abi::Array& x, const abi::Array& out) {
  if (x.ndim != 5 || out.ndim != 5 || out.dtype != x.dtype || !x.size || !out.size) return false;
  a.x = x.data, a.out = out.data;
  for (int k = 0; k < 3; ++k)
    a.along[k] = {x.shape[k + 2], out.shape[k + 2], x.stride[k + 2], out.stride[k + 2]};
  a.channels = x.shape[1], a.channel = x.stride[1], a.channel_to = out.stride[1];
  a.sample = x.stride[0], a.sample_to = out.stride[0];
  a.has_columns = a.along[2].stride == x.itemsize || a.along[2].size == 1;
  a.has_lanes = !a.has_columns && a.channel == x.itemsize;
  return true;
}

// Run a body over rows of windows. Returns 1 if there is no memory.
i64 share(const Call& call, abi::Body body, Adaptive& a, void* context) {
  const i64 windows = a.along[0].out * a.along[1].out, lanes = a.has_lanes ? a.channels : 1;
  const i64 elements = a.along[0].size * a.along[1].size * a.along[2].size * lanes;
  const i64 units = call.array[0].shape[0] * windows * (a.has_lanes ? 1 : a.channels);
  i64* bounds = (i64*)malloc(2 * sizeof(i64) * (a.along[0].out + a.along[1].out + a.along[2].out));
  if (!bounds) return 1;
  i64* next = bounds;
  for (Parts& of : a.along) {
    of.bounds = next;
    for (i64 i = 0; i < of.out; ++i) {
      *next++ = i * of.size / of.out;
      *next++ = ((i + 1) * of.size + of.out - 1) / of.out;
    }
  }
  call.share(body, context, units, TAPS / (elements / windows + 1) + 1);
  free(bounds);
  return 0;
}

// For lines with adjacent elements or adjacent channels.
i64 adaptive_avg_pool(const Call& call) {
  const abi::Array& x = call.array[0];
  Adaptive a;
  if ((x.dtype != abi::f32 && x.dtype != abi::f64) || !lay_out(a, x, call.array[1])) return 1;
  if (!a.has_columns && !a.has_lanes) return 1;
  return share(call, x.dtype == abi::f32 ? as_body(adapt<f32>) : as_body(adapt<f64>), a, &a);
}

// --- maxima -------------------------------------------------------------------------------------

constexpr int FOLD = 32;  // adjacent columns of a long window

struct Peaks {
  Adaptive of;
  char* places;
  i64 along[3], channel, sample;  // strides of places, in bytes
};

// Return the larger of two elements, the first of equal elements, or the last NaN.
template <class T> inline void keep(T& best, i32& at, T x, i32 place) {
  const bool is = (x > best) | ((x == best) & (place < at)) |
                  ((x != x) & ((best == best) | (place > at)));
  best = is ? x : best;
  at = is ? place : at;
}

// The maxima of n adjacent columns over the rows of a window. With lanes, these are of n channels,
// over the window's `columns` columns too.
template <class T>
void peaks_of(maximum<T>& line, const Adaptive& a, const char* x, i64 d, i64 h, i64 column, i64 n,
              i64 columns) {
  const Parts &of_d = a.along[0], &of_h = a.along[1], &w = a.along[2];
  const i64 step = a.has_lanes ? a.channel : w.stride;
  const i32 next = a.has_lanes ? 0 : 1;
  const i64 begin = (of_d.begin(d) * of_h.size + of_h.begin(h)) * w.size + column;
  line.begin(n);
  for (i64 k = 0; k < n; ++k) line.at[k] = (i32)(begin + k * next);
  for (i64 i = of_d.begin(d), end = of_d.end(d); i < end; ++i)
    for (i64 j = of_h.begin(h), last = of_h.end(h); j < last; ++j)
      for (i64 c = column; c < column + columns; ++c)
        take<maximum<T>, T>(line, 0, n, x + i * of_d.stride + j * of_h.stride + c * w.stride, step,
                            (i32)((i * of_h.size + j) * w.size + c), next);
}

// Merge N lanes by halves.
template <class T, int N> inline void fold(maximum<T>& line) {
  if constexpr (N > 1) {
#pragma GCC ivdep
    for (int k = 0; k < N / 2; ++k)
      keep(line.best[k], line.at[k], line.best[k + N / 2], line.at[k + N / 2]);
    fold<T, N / 2>(line);
  }
}

// The maximum of a window, in the first lane. FOLD adjacent columns are processed at a time. Rows
// without a gap between them are one row. A lane without a column loses to the first lane.
template <class T>
void peak_of_window(maximum<T>& line, const Adaptive& a, const char* x, i64 d, i64 h, i64 window) {
  const Parts &of_d = a.along[0], &of_h = a.along[1], &w = a.along[2];
  const i64 first = of_h.begin(h), column = w.begin(window), step = w.stride;
  i64 length = w.count(window), rows = of_h.count(h);
  if (length == w.size && of_h.stride == w.size * step) length *= rows, rows = 1;
  const auto place = [&](i64 i, i64 j) { return (i32)((i * of_h.size + j) * w.size + column); };
  line.begin(FOLD);
  for (i64 k = 0; k < FOLD; ++k) line.at[k] = place(of_d.begin(d), first) + (i32)k;
  for (i64 i = of_d.begin(d), end = of_d.end(d); i < end; ++i)
    for (i64 j = first; j < first + rows; ++j) {
      const char* from = x + i * of_d.stride + j * of_h.stride + column * step;
      i32 at = place(i, j);
      i64 k = 0;
      for (; step == sizeof(T) && k + FOLD <= length; k += FOLD)
        line.template with<1>(0, FOLD, from + k * sizeof(T), step, at + (i32)k, 1);
      for (; k < length; k += FOLD)
        take<maximum<T>, T>(line, 0, length - k < FOLD ? length - k : FOLD, from + k * step, step,
                            at + (i32)k, 1);
    }
  fold<T, FOLD>(line);
}

// Write the maximum of lanes [from, to).
template <class T>
void write_peak(char* out, char* places, const maximum<T>& line, i64 from, i64 to) {
  T best = line.best[from];
  i32 at = line.at[from];
  for (i64 k = from + 1; k < to; ++k) keep(best, at, line.best[k], line.at[k]);
  *(T*)out = best, *(i64*)places = at;
}

// A row of windows along w. Long windows are processed one by one, others as many at a time as
// their columns fit into a line.
template <class T>
void peak_row(const Peaks& p, const char* x, char* out, char* places, i64 d, i64 h) {
  const Parts& w = p.of.along[2];
  maximum<T> line;
  if (w.out == 1 || w.size / w.out >= FOLD) {
    for (i64 i = 0; i < w.out; ++i, out += w.to, places += p.along[2]) {
      peak_of_window(line, p.of, x, d, h, i);
      *(T*)out = line.best[0], *(i64*)places = line.at[0];
    }
    return;
  }
  for (i64 first = 0; first < w.out;) {
    const i64 begin = w.begin(first);
    i64 last = first + 1;
    while (last < w.out && w.end(last) - begin <= SOME) ++last;
    peaks_of(line, p.of, x, d, h, begin, w.end(last - 1) - begin, 1);
    for (; first < last; ++first, out += w.to, places += p.along[2])
      write_peak(out, places, line, w.begin(first) - begin, w.end(first) - begin);
  }
}

// The channels of a row of windows.
template <class T>
void peak_channels(const Peaks& p, const char* x, char* out, char* places, i64 d, i64 h) {
  const Adaptive& a = p.of;
  const Parts& w = a.along[2];
  maximum<T> line;
  for (i64 window = 0; window < w.out; ++window)
    for (i64 lane = 0; lane < a.channels; lane += SOME) {
      const i64 n = a.channels - lane < SOME ? a.channels - lane : SOME;
      peaks_of(line, a, x + lane * a.channel, d, h, w.begin(window), n, w.count(window));
      for (i64 k = 0; k < n; ++k) {
        *(T*)(out + window * w.to + (lane + k) * a.channel_to) = line.best[k];
        *(i64*)(places + window * p.along[2] + (lane + k) * p.channel) = line.at[k];
      }
    }
}

template <class T> void peak(const Peaks& p, i64 first, i64 last) {
  const Adaptive& a = p.of;
  for (i64 number = first; number < last; ++number) {
    const Unit u(a, number);
    const char* x = a.x + u.sample * a.sample + u.channel * a.channel;
    char* out = a.out + u.sample * a.sample_to + u.channel * a.channel_to + u.d * a.along[0].to +
                u.h * a.along[1].to;
    char* places = p.places + u.sample * p.sample + u.channel * p.channel + u.d * p.along[0] +
                   u.h * p.along[1];
    if (a.has_lanes) {
      peak_channels<T>(p, x, out, places, u.d, u.h);
    } else {
      peak_row<T>(p, x, out, places, u.d, u.h);
    }
  }
}

i64 adaptive_max_pool(const Call& call) {
  const abi::Array &x = call.array[0], &places = call.array[2];
  Peaks p;
  if (!lay_out(p.of, x, call.array[1])) return 1;
  if (places.ndim != 5 || places.dtype != abi::i64_) return 1;
  if (p.of.along[0].size * p.of.along[1].size * p.of.along[2].size >= (i64)1 << 31) return 1;
  p.places = places.data, p.sample = places.stride[0], p.channel = places.stride[1];
  for (int k = 0; k < 3; ++k) p.along[k] = places.stride[k + 2];
  switch (x.dtype) {
#define X(T) case code_of<T>: return share(call, as_body(peak<T>), p.of, &p);
    X(u8) X(i8) X(i16) X(i32) X(i64) X(f32) X(f64)
#undef X
  }
  return 1;
}
