// The gradients of attention, computed from its result and the logarithms of the softmax sums.
//
// Order    each head of key and value is divided into parts of keys, by sizes alone. A part adds
//          its tiles one after the other. If there are several parts, their gradients of queries
//          are added in order.
// Memory   a thread has the gradients of queries of one part, and tiles. If there are several
//          parts, each has an f32 or f64 for each element of query.
#ifndef GPUTENSOR_ATTENTION_BACKWARD_H
#define GPUTENSOR_ATTENTION_BACKWARD_H

#include "attention.h"

namespace CAPABILITY {

// The minimum number of multiplications that a thread takes at a time.
constexpr i64 PRODUCTS = 1 << 18;
// From this number of heads of keys on, each head is one part.
constexpr i64 MANY_HEADS = 16;

struct Backward {
  const Array *grad, *query, *key, *value, *mask, *out, *sums, *of_query, *of_key, *of_value;
  const Array* of_scores;
  bool is_causal;
  double scale;
  Dropout dropout;
  i64 part, parts;  // keys of a part, a multiple of KEYS; number of parts of a head
  char* partial;    // gradients of queries: (parts, samples, heads, length, width)
  i64 answer;

  // number of heads of query per head of key
  i64 served() const { return query->shape[1] / key->shape[1]; }
};

// The working memory of a thread for a part.
template <class T> struct Gradients {
  i64 width, made, length;
  T *of_query, *of_key, *of_value, *query, *grad, *keys, *values, *key_panels, *value_panels;
  T *weights, *slopes, *out, *delta, *sums;

  static i64 bytes(i64 width, i64 made, i64 queries) {
    return Room::bytes_of<T>(queries * width) + 3 * Room::bytes_of<T>(KEYS * width) +
           3 * Room::bytes_of<T>(KEYS * made) + Room::bytes_of<T>(QUERIES * width) +
           2 * Room::bytes_of<T>(QUERIES * made) + 2 * Room::bytes_of<T>(QUERIES * KEYS) +
           2 * Room::bytes_of<T>(QUERIES);
  }
  Gradients(Room& room, i64 width, i64 made, i64 queries) : width(width), made(made) {
    of_query = room.take<T>(queries * width);
    of_key = room.take<T>(KEYS * width), of_value = room.take<T>(KEYS * made);
    keys = room.take<T>(KEYS * width), values = room.take<T>(KEYS * made);
    key_panels = room.take<T>(KEYS * width), value_panels = room.take<T>(KEYS * made);
    query = room.take<T>(QUERIES * width), grad = room.take<T>(QUERIES * made);
    out = room.take<T>(QUERIES * made), weights = room.take<T>(QUERIES * KEYS);
    slopes = room.take<T>(QUERIES * KEYS);
    delta = room.take<T>(QUERIES), sums = room.take<T>(QUERIES);
  }
};

// Some keys of one head, untransposed and transposed.
template <class T> struct KeyBlock {
  i64 first, n;
  Right<T> keys, key_columns, value_columns;
};

// Queries [first, first + n) of one head, with their forward results. delta is the sum of grad *
// out.
template <class T>
static void load_queries(const Backward& b, const Gradients<T>& s, i64 sample, i64 head, i64 first,
                         i64 n) {
  const Array& sums = *b.sums;
  load_rows(s.query, s.width, Head(*b.query, sample, head), first, n, (T)b.scale);
  load_rows(s.grad, s.made, Head(*b.grad, sample, head), first, n, (T)1);
  load_rows(s.out, s.made, Head(*b.out, sample, head), first, n, (T)1);
  const char* from = sums.data + sample * sums.stride[0] + head * sums.stride[1];
  for (i64 i = 0; i < n; ++i) {
    s.sums[i] = *(const T*)(from + (first + i) * sums.stride[2]);
    dots(s.grad + i * s.made, {s.out + i * s.made, s.made, 1}, 1, s.made, s.delta + i);
  }
}

template <class T> LOOP slopes_of(T* slopes, const T* weights, T delta, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) slopes[k] = weights[k] * (slopes[k] - delta);
}

// The softmax of one tile with dropout, and the gradient of its scores.
template <class T>
static void weigh(const Backward& b, const Gradients<T>& s, const KeyBlock<T>& block, i64 sample,
                  i64 head, i64 first, i64 n, i64 count) {
  const Head mask = b.mask->data ? Head(*b.mask, sample, head) : Head(*b.query, sample, head);
  const i64 all = rounded(count, HEIGHT<T>);  // rows of the products of the transposed tile
  for (i64 i = 0; i < n; ++i) {
    T *weights = s.weights + i * KEYS, *slopes = s.slopes + i * KEYS;
    i64 seen = count;
    if (b.is_causal) seen = larger(0, smaller(count, first + i + 1 - block.first));
    apply_mask(weights, *b.mask, mask, first + i, block.first, seen);
    exponentials(weights, s.sums[i], seen, all);
    alignas(64) T factors[KEYS];
    if (b.dropout.is_on) {
      const i64 of_all = sample * b.query->shape[1] + head;
      draw_factors(b.dropout, b.dropout.number(of_all, first + i, block.first), seen, factors);
      multiply_by(slopes, factors, seen);
    }
    slopes_of(slopes, weights, s.delta[i], seen);
    if (b.dropout.is_on) multiply_by(weights, factors, seen);
    for (i64 k = seen; k < all; ++k) slopes[k] = 0;
    if (!b.of_scores->data) continue;
    const Array& to = *b.of_scores;
    char* row = Head(to, sample, head).row(first + i) + block.first * to.stride[3];
    narrow(row, to.dtype, slopes, to.stride[3], count);
  }
}

// Add the contribution of one tile to the gradients of its keys, values and queries.
template <class T>
static void add_tile(const Backward& b, const Gradients<T>& s, const KeyBlock<T>& block, i64 sample,
                     i64 head, i64 first, i64 n, T* of_query) {
  i64 count = block.n;
  if (b.is_causal) count = smaller(count, first + n - block.first);
  load_queries(b, s, sample, head, first, n);
  multiply<false>(s.query, s.width, block.key_columns, n, count, s.width, s.weights, KEYS, false);
  multiply<false>(s.grad, s.made, block.value_columns, n, count, s.made, s.slopes, KEYS, false);
  weigh(b, s, block, sample, head, first, n, count);
  const Right<T> grad = {s.grad, s.made, 1}, query = {s.query, s.width, 1};
  multiply<true>(s.weights, KEYS, grad, count, s.made, n, s.of_value, s.made, true);
  multiply<true>(s.slopes, KEYS, query, count, s.width, n, s.of_key, s.width, true);
  multiply<false>(s.slopes, KEYS, block.keys, n, s.width, count, of_query, s.width, true);
}

// All queries that attend to a block of keys.
template <class T>
static void add_block(const Backward& b, const Gradients<T>& s, i64 sample, i64 own, i64 key,
                      i64 n) {
  const Right<T> keys = rows_of(Head(*b.key, sample, own), key, n, s.width, s.keys);
  const Right<T> values = rows_of(Head(*b.value, sample, own), key, n, s.made, s.values);
  const KeyBlock<T> block = {key, n, keys, turned_rows(keys, n, s.width, s.key_panels),
                             turned_rows(values, n, s.made, s.value_panels)};
  const i64 length = b.query->shape[2], rows = rounded(length, QUERIES);
  // A tile may have only some of the keys: the keys that its queries attend to.
  memset(s.of_key, 0, KEYS * s.width * sizeof(T)), memset(s.of_value, 0, KEYS * s.made * sizeof(T));
  for (i64 h = 0; h < b.served(); ++h)
    for (i64 q = b.is_causal ? key / QUERIES * QUERIES : 0; q < length; q += QUERIES) {
      const i64 some = smaller(QUERIES, length - q);
      if (b.is_causal && q + some <= key) continue;
      add_tile(b, s, block, sample, own * b.served() + h, q, some,
               s.of_query + (h * rows + q) * s.width);
    }
  store_rows(Head(*b.of_key, sample, own), key, n, s.of_key, s.width);
  store_rows(Head(*b.of_value, sample, own), key, n, s.of_value, s.made);
}

// Write a part's gradients of queries, or store them beside the gradients of other parts.
template <class T>
static void give_queries(const Backward& b, const Gradients<T>& s, i64 sample, i64 own, i64 part) {
  const i64 length = b.query->shape[2], size = b.query->shape[3], heads = b.query->shape[1];
  for (i64 h = 0; h < b.served(); ++h) {
    T* from = s.of_query + h * rounded(length, QUERIES) * s.width;
    for (i64 k = 0; k < length * s.width; ++k) from[k] *= (T)b.scale;
    const i64 head = own * b.served() + h;
    if (b.parts == 1) {
      store_rows(Head(*b.of_query, sample, head), 0, length, from, s.width);
      continue;
    }
    T* to = (T*)b.partial + ((part * b.query->shape[0] + sample) * heads + head) * length * size;
    for (i64 i = 0; i < length; ++i) memcpy(to + i * size, from + i * s.width, size * sizeof(T));
  }
}

template <class T> static void add_parts(Backward& b, i64 first, i64 last) {
  const i64 width = rounded(b.query->shape[3], wide<T>::LANES), heads = b.key->shape[1];
  const i64 made = rounded(b.value->shape[3], wide<T>::LANES), all = b.key->shape[2];
  const i64 queries = b.served() * rounded(b.query->shape[2], QUERIES);
  Room room(Gradients<T>::bytes(width, made, queries));
  if (!room) return note(&b.answer, NO_MEMORY);
  const Gradients<T> s(room, width, made, queries);
  for (i64 unit = first; unit < last; ++unit) {
    const i64 part = unit % b.parts, own = unit / b.parts % heads, sample = unit / b.parts / heads;
    memset(s.of_query, 0, queries * width * sizeof(T));
    const i64 from = part * b.part, stop = smaller(all, from + b.part);
    for (i64 key = from; key < stop; key += KEYS)
      add_block(b, s, sample, own, key, smaller(KEYS, stop - key));
    give_queries(b, s, sample, own, part);
  }
}

// Add up the gradients of all parts for one row of queries.
template <class T> static void join_parts(const Backward& b, i64 first, i64 last) {
  const Array& query = *b.query;
  const i64 size = query.shape[3], length = query.shape[2], heads = query.shape[1];
  const i64 all = query.shape[0] * heads * length * size;
  for (i64 unit = first; unit < last; ++unit) {
    T* sum = (T*)b.partial + unit * size;
    for (i64 part = 1; part < b.parts; ++part)
      for (i64 k = 0; k < size; ++k) sum[k] += sum[part * all + k];
    const i64 head = unit / length % heads, sample = unit / length / heads;
    store_rows(Head(*b.of_query, sample, head), unit % length, 1, sum, size);
  }
}

template <class T> static i64 backward(const Call& call) {
  const Array* x = call.array;
  Backward b = {x,     x + 1, x + 2, x + 3,  x + 4,  x + 5,
                x + 6, x + 7, x + 8, x + 9,  x + 10, call.integer[0] != 0,
                call.real[0], Dropout(call.integer + 1, call.real[1], x[1], x[2])};
  const Array &query = *b.query, &key = *b.key;
  const i64 heads = key.shape[0] * key.shape[1], blocks = (key.shape[2] + KEYS - 1) / KEYS;
  const i64 wanted = smaller(blocks, (MANY_HEADS - 1) / heads + 1);
  b.part = (blocks + wanted - 1) / wanted * KEYS;
  b.parts = (key.shape[2] + b.part - 1) / b.part;
  const i64 rows = query.shape[0] * query.shape[1] * query.shape[2];
  if (b.parts > 1) b.partial = (char*)malloc(b.parts * rows * query.shape[3] * sizeof(T));
  if (b.parts > 1 && !b.partial) return NO_MEMORY;
  const i64 products = smaller(b.part, key.shape[2]) * query.shape[2] * b.served() *
                       (query.shape[3] + b.value->shape[3]);
  call.share(as_body(add_parts<T>), &b, heads * b.parts, larger(1, PRODUCTS / larger(1, products)));
  if (b.parts > 1) {
    if (!b.answer)
      call.share(as_body(join_parts<T>), &b, rows,
                 larger(1, GRAIN / larger(1, b.parts * query.shape[3])));
    free(b.partial);
  }
  return b.answer;
}

}  // namespace CAPABILITY

#endif
