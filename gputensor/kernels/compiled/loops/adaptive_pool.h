// Means over a given number of windows, which may overlap. Included by pool_windows.cpp.
constexpr i64 LINE = 1024, SHORT = 32;  // columns at a time; rows or columns of one sum

struct Parts {
  i64 size, out, stride, to;  // strides in bytes
  i64 begin(i64 i) const { return i * size / out; }
  i64 end(i64 i) const { return ((i + 1) * size + out - 1) / out; }
  i64 count(i64 i) const { return end(i) - begin(i); }
};

struct Adaptive {
  const char* x;
  char* out;
  Parts along[3];  // d, h, w
  i64 channels, channel, channel_to, sample, sample_to;
  bool has_lanes;  // strides of channels, not of columns
};

// total[k] = the sum over the rows of a window, for n adjacent lanes; SHORT rows at a time.
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

// The sum of n numbers, SHORT at a time.
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

// A row of windows along w, as many at a time as their columns fit into a line.
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

// The channels of a row of windows; each channel is summed as above.
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

template <class T> void adapt(void* context, i64 first, i64 last) {
  const Adaptive& a = *(const Adaptive*)context;
  for (i64 unit = first; unit < last; ++unit) {
    i64 rest = unit;
    const i64 h = rest % a.along[1].out;
    rest /= a.along[1].out;
    const i64 d = rest % a.along[0].out;
    rest /= a.along[0].out;
    const i64 channel = a.has_lanes ? 0 : rest % a.channels;
    if (!a.has_lanes) rest /= a.channels;
    const char* x = a.x + rest * a.sample + channel * a.channel;
    char* out = a.out + rest * a.sample_to + channel * a.channel_to + d * a.along[0].to +
                h * a.along[1].to;
    const i64 rows = a.along[0].count(d) * a.along[1].count(h);
    if (a.has_lanes) {
      adapt_channels<T>(a, x, out, d, h, rows);
    } else {
      adapt_row<T>(a, x, out, d, h, rows);
    }
  }
}

// For lines with adjacent elements or adjacent channels.
i64 adaptive_avg_pool(const Call& call) {
  const abi::Array &x = call.array[0], &out = call.array[1];
  if (x.ndim != 5 || out.ndim != 5 || out.dtype != x.dtype) return 1;
  if (x.dtype != abi::f32 && x.dtype != abi::f64) return 1;
  if (!x.size || !out.size) return 1;
  Adaptive a = {x.data, out.data};
  i64 units = x.shape[0], windows = 1, elements = 1;
  for (int k = 0; k < 3; ++k) {
    a.along[k] = {x.shape[k + 2], out.shape[k + 2], x.stride[k + 2], out.stride[k + 2]};
    elements *= x.shape[k + 2];
    if (k < 2) windows *= out.shape[k + 2];
  }
  a.channels = x.shape[1], a.channel = x.stride[1], a.channel_to = out.stride[1];
  a.sample = x.stride[0], a.sample_to = out.stride[0];
  const bool has_columns = a.along[2].stride == x.itemsize || a.along[2].size == 1;
  a.has_lanes = !has_columns && a.channel == x.itemsize;
  if (!has_columns && !a.has_lanes) return 1;
  if (a.has_lanes) elements *= a.channels;
  units *= windows * (a.has_lanes ? 1 : a.channels);
  const i64 each = TAPS / (elements / windows + 1) + 1;
  call.share(x.dtype == abi::f32 ? adapt<f32> : adapt<f64>, &a, units, each);
  return 0;
}
