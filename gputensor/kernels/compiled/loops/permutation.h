// The indices of Philox words in ascending order of the words: a random permutation.
//
// A word and its index are sorted as one number. The index is in the low bits; above it are as many
// upper bits of the word as fit. Words are distributed uniformly, so their first bits nearly
// determine their position. Threads put the words into buckets by these bits, and sort each bucket
// by the next bits and by insertion. If the upper bits of two words are equal, all their bits are
// compared. Equal words keep their order.
#ifndef GPUTENSOR_PERMUTATION_H
#define GPUTENSOR_PERMUTATION_H

namespace CAPABILITY {

constexpr i64 PARTS = 16, MOST_BUCKETS = 1 << 12;  // also in kernels/compiled/random.py
constexpr i64 IN_BUCKET = 1 << 11;
// Bits of a digit of a bucket's words. Buckets of at most this size are sorted only by insertion.
constexpr int DIGIT_BITS = 8;
constexpr i64 SLOTS = 1 << DIGIT_BITS, FEW = 24;

struct Permutation {
  i64 n, part;  // words in total, and in a part, which is a multiple of four
  u64 seed, base;
  int bits, place_bits;  // number of bits of a word that select its bucket; bits of an index
  u64 *words, *moved, *out;
  u32* counts;  // [PARTS][buckets]: the number of words, later the position of the next one
};

static inline u64 with_place(u64 word, i64 place, int place_bits) {
  return word >> place_bits << place_bits | (u64)place;
}

static void count_words(const Permutation& p, i64 first, i64 last) {
  for (i64 part = first; part < last; ++part) {
    u32* counts = p.counts + (part << p.bits);
    memset(counts, 0, sizeof(u32) << p.bits);
    const i64 begin = part * p.part, end = begin + p.part < p.n ? begin + p.part : p.n;
    if (begin >= end) continue;
    draw_words(p.words + begin, p.seed, p.base + begin / 4, (end - begin + 3) / 4);
    const u64* words = p.words;
    const int bits = p.bits;
    for (i64 i = begin; i < end; ++i) ++counts[words[i] >> (64 - bits)];
  }
}

static void move_words(const Permutation& p, i64 first, i64 last) {
  for (i64 part = first; part < last; ++part) {
    u32* next = p.counts + (part << p.bits);
    const i64 begin = part * p.part, end = begin + p.part < p.n ? begin + p.part : p.n;
    const u64* words = p.words;
    u64* moved = p.moved;
    const int bits = p.bits, place_bits = p.place_bits;
    for (i64 i = begin; i < end; ++i) {
      const u64 word = words[i];
      moved[next[word >> (64 - bits)]++] = with_place(word, i, place_bits);
    }
  }
}

static void insert_downwards(u64* sorted, i64 n) {
  u64 last = n ? sorted[0] : 0;
  for (i64 i = 1; i < n; ++i) {
    const u64 one = sorted[i];
    if (last <= one) {
      last = one;
      continue;
    }
    i64 to = i;
    for (; to && sorted[to - 1] > one; --to) sorted[to] = sorted[to - 1];
    sorted[to] = one;
  }
}

// Sort x[0], …, x[n - 1] by the two digits after their first `bits` bits, the lower digit first.
// room: memory for n more elements.
static void sort_by_two_digits(u64* x, u64* room, i64 n, int bits) {
  u32 low[SLOTS] = {}, high[SLOTS] = {};
  const int up = 64 - DIGIT_BITS;
  for (i64 i = 0; i < n; ++i) {
    const u64 digits = x[i] << bits;
    ++high[digits >> up];
    ++low[digits << DIGIT_BITS >> up];
  }
  u32 before[2] = {};
  for (i64 slot = 0; slot < SLOTS; ++slot) {
    const u32 counts[2] = {low[slot], high[slot]};
    low[slot] = before[0], before[0] += counts[0];
    high[slot] = before[1], before[1] += counts[1];
  }
  for (i64 i = 0; i < n; ++i) {
    const u64 one = x[i];
    room[low[one << bits << DIGIT_BITS >> up]++] = one;
  }
  for (i64 i = 0; i < n; ++i) {
    const u64 one = room[i];
    x[high[one << bits >> up]++] = one;
  }
}

// Move the elements from p.moved to p.out.
static void sort_bucket(const Permutation& p, i64 begin, i64 end) {
  const i64 n = end - begin;
  u64 *moved = p.moved + begin, *out = p.out + begin;
  const u64 *words = p.words, places = ((u64)1 << p.place_bits) - 1;
  if (n > FEW) sort_by_two_digits(moved, out, n, p.bits);
  insert_downwards(moved, n);  // few elements are still unsorted
  bool has_alike = false;
  for (i64 i = 1; i < n; ++i) has_alike |= (moved[i] ^ moved[i - 1]) <= places;
  if (has_alike) {
    for (i64 i = 1; i < n; ++i) {
      const u64 one = moved[i], word = words[one & places];
      i64 to = i;
      for (; to && (moved[to - 1] ^ one) <= places && words[moved[to - 1] & places] > word; --to)
        moved[to] = moved[to - 1];
      moved[to] = one;
    }
  }
  for (i64 i = 0; i < n; ++i) out[i] = moved[i] & places;
}

static void sort_buckets(const Permutation& p, i64 first, i64 last) {
  const u32* ends = p.counts + ((PARTS - 1) << p.bits);  // the end of the last part's words
  for (i64 b = first; b < last; ++b) sort_bucket(p, b ? ends[b - 1] : 0, ends[b]);
}

// Arrays: out; words, 2 n + 8 of them; counts. Numbers: seed and first counter.
static i64 permute(const Call& call) {
  Permutation p;
  p.out = (u64*)call.array[0].data, p.n = call.array[0].size;
  p.words = (u64*)call.array[1].data, p.moved = p.words + p.n + 4;
  p.counts = (u32*)call.array[2].data;
  p.seed = (u64)call.integer[0], p.base = (u64)call.integer[1];
  p.bits = 0, p.place_bits = 1;
  while ((p.n >> p.bits) > IN_BUCKET && (1 << p.bits) < MOST_BUCKETS) ++p.bits;
  while (p.n >> p.place_bits) ++p.place_bits;
  p.part = (p.n + 4 * PARTS - 1) / (4 * PARTS) * 4;
  if (!p.bits) {
    draw_words(p.words, p.seed, p.base, (p.n + 3) / 4);
    for (i64 i = 0; i < p.n; ++i) p.moved[i] = with_place(p.words[i], i, p.place_bits);
    sort_bucket(p, 0, p.n);
    return 0;
  }
  call.share(as_body(count_words), &p, PARTS, 1);
  u32 sum = 0;
  for (i64 b = 0; b < 1 << p.bits; ++b) {
    for (i64 part = 0; part < PARTS; ++part) {
      u32& place = p.counts[(part << p.bits) + b];
      const u32 count = place;
      place = sum, sum += count;
    }
  }
  call.share(as_body(move_words), &p, PARTS, 1);
  call.share(as_body(sort_buckets), &p, 1 << p.bits, 4);
  return 0;
}

}  // namespace CAPABILITY

#endif
