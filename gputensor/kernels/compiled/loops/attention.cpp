// out = softmax(query @ key^T * scale + mask) @ value, computed tile by tile; and its gradients.
//                                                                               family: attention
//
// Calls    forward(query, key, value, mask or None, out, logsumexp, NUMBERS)
//          backward(grad, query, key, value, mask or None, out, logsumexp, of_query, of_key,
//          of_value, of_scores or None, NUMBERS)
//          Both return 0, or -1 if there is no memory.
// NUMBERS  is_causal, has_dropout, its seed, counter and limit; scale, and the factor of the
//          weights that dropout keeps
// Shapes   (samples, heads, length, width) of any strides; mask and of_scores (samples, heads,
//          queries, keys), and logsumexp (samples, heads, queries). Each head of key and value is
//          shared by equally many consecutive heads of query.
// Types    f32 and f64; f16 and bf16 in f32, rounded once. logsumexp and of_scores have the type of
//          the computation; a mask is bool, of that type, or of the type of query.
// Order    the sum of a softmax is taken over KEYS elements at a time, in the order of rows.h. Each
//          time the previous terms are scaled to the largest score so far. The products of fewer
//          than FEW queries with keys are also added in the order of rows.h.
// Numbers  a query without keys gives zeros, and 0 as its logsumexp.
// Threads  each thread takes some queries of a head. The bits of a query do not depend on the
//          threads.
// Source   Dao et al., FlashAttention, 2022.
#include "attention_backward.h"

namespace CAPABILITY {

namespace {

// Queries that a thread processes for each transposition of keys. A head is divided into smaller
// groups if threads would be idle.
constexpr i64 GROUP = 256;
// Fewer queries than this use untransposed keys, because transposing takes longer than the
// products.
constexpr i64 FEW = 4;

struct Forward {
  const Array *query, *key, *value, *mask, *out, *sums;
  bool is_causal;
  double scale;
  Dropout dropout;
  i64 group, groups;  // queries of a unit; number of units of a head
  i64 answer;

  bool is_short() const { return query->shape[2] < FEW; }
};

// The working memory of a thread for a unit.
template <class T> struct Softmax {
  i64 width, made;  // width of a row of query and of out, rounded up to whole registers
  T *query, *out, *scores, *keys, *panels, *values, *most, *total;

  static i64 bytes(i64 queries, i64 width, i64 made) {
    return Room::bytes_of<T>(queries * width) + Room::bytes_of<T>(queries * made) +
           Room::bytes_of<T>(QUERIES * KEYS) + 2 * Room::bytes_of<T>(KEYS * width) +
           Room::bytes_of<T>(KEYS * made) + 2 * Room::bytes_of<T>(queries);
  }
  Softmax(Room& room, i64 queries, i64 width, i64 made)
      : width(width),
        made(made),
        query(room.take<T>(queries * width)),
        out(room.take<T>(queries * made)),
        scores(room.take<T>(QUERIES * KEYS)),
        keys(room.take<T>(KEYS * width)),
        panels(room.take<T>(KEYS * width)),
        values(room.take<T>(KEYS * made)),
        most(room.take<T>(queries)),
        total(room.take<T>(queries)) {}
};

// Replace a row's scores by their exponentials, and scale the previous sums.
template <class T>
static inline void add_exponentials(T* scores, i64 seen, i64 all, T& most, T& total, T* out,
                                    i64 width) {
  const T larger = largest_of(scores, seen, most), shift = larger == LEAST<T> ? (T)0 : larger;
  exponentials(scores, shift, seen, all);
  const T sum = sum_of_piece<T>(seen, [](vector<T> x) { return x; }, (const T*)scores);
  if (larger != most && out) {
    const T by = elementary::exp_below_zero(most - shift);
    total *= by;
    for (i64 k = 0; k < width; ++k) out[k] *= by;
  }
  most = larger, total += sum;
}

// Process queries [first, first + n) and keys [key, key + count). `at`: the position of the first
// query in the group. head: counted over all samples.
template <class T>
static void attend(const Forward& f, const Softmax<T>& s, const Head& mask, i64 head, i64 first,
                   i64 at, i64 n, i64 key, i64 count, Right<T> keys, Right<T> values) {
  if (f.is_causal) count = smaller(count, first + n - key);
  if (count <= 0) return;
  const T* query = s.query + at * s.width;
  for (i64 i = 0; f.is_short() && i < n; ++i)
    dots(query + i * s.width, keys, count, s.width, s.scores + i * KEYS);
  if (!f.is_short())
    multiply<false>(query, s.width, keys, n, count, s.width, s.scores, KEYS, false);
  for (i64 i = 0; i < n; ++i) {
    T* row = s.scores + i * KEYS;
    i64 seen = count;
    if (f.is_causal) seen = larger(0, smaller(count, first + i + 1 - key));
    apply_mask(row, *f.mask, mask, first + i, key, seen);
    add_exponentials(row, seen, count, s.most[at + i], s.total[at + i],
                     key ? s.out + (at + i) * s.made : nullptr, s.made);
    if (!f.dropout.is_on) continue;
    alignas(64) T factors[KEYS];
    draw_factors(f.dropout, f.dropout.number(head, first + i, key), seen, factors);
    multiply_by(row, factors, seen);
  }
  (f.is_short() ? multiply<false, T, 1> : multiply<false, T>)(
      s.scores, KEYS, values, n, s.made, count, s.out + at * s.made, s.made, key != 0);
}

// Divide by the sums, and write the results.
template <class T>
static void finish(const Forward& f, const Softmax<T>& s, i64 sample, i64 head, i64 first, i64 n) {
  const Array& sums = *f.sums;
  for (i64 i = 0; i < n; ++i) {
    T* row = s.out + i * s.made;
    const T total = s.total[i];
    for (i64 k = 0; k < s.made; ++k) row[k] = total == 0 ? (T)0 : row[k] / total;
    char* to = sums.data + sample * sums.stride[0] + head * sums.stride[1];
    *(T*)(to + (first + i) * sums.stride[2]) = total == 0 ? (T)0 : s.most[i] + math_log(total);
  }
  store_rows(Head(*f.out, sample, head), first, n, s.out, s.made);
}

template <class T> static void attend_group(const Forward& f, const Softmax<T>& s, i64 unit) {
  const i64 head = unit / f.groups % f.query->shape[1];
  const i64 sample = unit / f.groups / f.query->shape[1];
  const i64 first = unit % f.groups * f.group, length = f.query->shape[2], all = f.key->shape[2];
  const i64 n = smaller(f.group, length - first);
  const i64 own = head / (f.query->shape[1] / f.key->shape[1]);
  const i64 stop = f.is_causal ? smaller(all, first + n) : all;
  const Head mask = f.mask->data ? Head(*f.mask, sample, head) : Head(*f.query, sample, head);
  const Head key_head(*f.key, sample, own), value_head(*f.value, sample, own);
  load_rows(s.query, s.width, Head(*f.query, sample, head), first, n, (T)f.scale);
  for (i64 i = 0; i < n; ++i) s.most[i] = LEAST<T>, s.total[i] = 0;
  for (i64 key = 0; key < stop; key += KEYS) {
    const i64 count = smaller(KEYS, stop - key);
    Right<T> keys = rows_of(key_head, key, count, s.width, s.keys);
    if (!f.is_short()) keys = turned_rows(keys, count, s.width, s.panels);
    const Right<T> values = rows_of(value_head, key, count, s.made, s.values);
    for (i64 at = 0; at < n; at += QUERIES)
      attend(f, s, mask, unit / f.groups, first + at, at, smaller(QUERIES, n - at), key, count,
             keys, values);
  }
  finish(f, s, sample, head, first, n);
}

template <class T> static void attend_units(Forward& f, i64 first, i64 last) {
  const i64 width = rounded(f.query->shape[3], wide<T>::LANES);
  const i64 made = rounded(f.value->shape[3], wide<T>::LANES), queries = rounded(f.group, QUERIES);
  Room room(Softmax<T>::bytes(queries, width, made));
  if (!room) return note(&f.answer, NO_MEMORY);
  const Softmax<T> s(room, queries, width, made);
  for (i64 unit = first; unit < last; ++unit) attend_group(f, s, unit);
}

template <class T> static i64 forward(const Call& call) {
  const Array* x = call.array;
  const Dropout dropout(call.integer + 1, call.real[1], x[0], x[1]);
  Forward f = {x,     x + 1, x + 2, x + 3, x + 4, x + 5, call.integer[0] != 0, call.real[0],
               dropout};
  const i64 heads = x->shape[0] * x->shape[1], length = x->shape[2];
  f.group = GROUP;
  while (f.group > QUERIES && heads * ((length + f.group - 1) / f.group) < 4 * call.threads)
    f.group /= 2;
  f.groups = (length + f.group - 1) / f.group;
  const i64 products = smaller(f.group, length) * x[1].shape[2] * (x->shape[3] + x[2].shape[3]);
  call.share(as_body(attend_units<T>), &f, heads * f.groups,
             larger(1, PRODUCTS / larger(1, products)));
  return f.answer;
}

const abi::FunctionEntry functions[] = {
    {"forward", by_dtype<forward<f32>, forward<f64>>, true},
    {"backward", by_dtype<backward<f32>, backward<f64>>, true},
};

}  // namespace

extern const abi::Family attention = {"attention", functions};

}  // namespace CAPABILITY
