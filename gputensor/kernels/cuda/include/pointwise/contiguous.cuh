// Parameters and 16-byte accesses of the kernels whose operands are all dense in one order.
//
// A block processes a tile of blockDim.x * PACKS packs. A pack has as many elements as the widest
// operand has in 16 bytes. A whole tile of aligned operands is read and written by packs, with all
// loads before the first use. The last tile and unaligned operands are processed element by
// element. There is no grid-stride loop, because a run-time loop cost 33 % (pytorch#194310).
#if !defined(GPUTENSOR_CONTIGUOUS) && !defined(GPUTENSOR_LOOPS)
#define GPUTENSOR_CONTIGUOUS

#include "pointwise/strided.cuh"

template <int OPERANDS, int VALUES> struct contiguous_params {
  char* data[OPERANDS];
  value_slot value[VALUES];
  u32 numel;
  u32 numbers;
};

template <int BYTES> struct word_of;
template <> struct word_of<1> { typedef u8 type; };
template <> struct word_of<2> { typedef u16 type; };
template <> struct word_of<4> { typedef u32 type; };
template <> struct word_of<8> { typedef u64 type; };
template <> struct word_of<16> { typedef w128 type; };

#ifdef GPUTENSOR_CHECK_ALIGNED  // the emulator's
#define CHECK_PACK(address, bytes) GPUTENSOR_CHECK_ALIGNED(address, bytes)
#else
#define CHECK_PACK(address, bytes)
#endif

template <class T, int N> union pack {
  typename word_of<sizeof(T) * N>::type word;
  T at[N];
};

template <class T, int N> DEVICE pack<T, N> load_pack(const char* data, u32 element) {
  const char* address = data + (u64)element * sizeof(T);
  CHECK_PACK(address, sizeof(T) * N);
  pack<T, N> loaded;
  loaded.word = *(const typename word_of<sizeof(T) * N>::type*)address;
  return loaded;
}

template <class T, int N> DEVICE void store_pack(char* data, u32 element, pack<T, N> value) {
  char* address = data + (u64)element * sizeof(T);
  CHECK_PACK(address, sizeof(T) * N);
  *(typename word_of<sizeof(T) * N>::type*)address = value.word;
}

template <class T, int N> DEVICE pack<T, N> repeat(T value) {
  pack<T, N> filled;
#pragma unroll
  for (int e = 0; e < N; ++e) filled.at[e] = value;
  return filled;
}

// A pack of an operand that may be a number.
template <class T, int N, class acc_t>
DEVICE pack<T, N> load_or_repeat(const char* data, u32 element, bool is_number, acc_t value) {
  return is_number ? repeat<T, N>(cast<T>(value)) : load_pack<T, N>(data, element);
}

// An element of a pack that may be a number. A number beside f16 or bf16 operands is not rounded to
// their type.
template <class T, class acc_t> DEVICE acc_t element_or_number(T x, bool is_number, acc_t value) {
  if constexpr (is_half<T>) {
    return is_number ? value : cast<acc_t>(x);
  } else {
    return cast<acc_t>(x);
  }
}

// A load of data that is not used again soon. It does not displace other lines in L1.
template <class T, int N> DEVICE pack<T, N> load_streaming(const char* data, u32 element) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) * N == 16) {
    pack<T, N> loaded;
    asm volatile("ld.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];"
                 : "=l"(loaded.word.low), "=l"(loaded.word.high)
                 : "l"(data + (u64)element * sizeof(T)));
    return loaded;
  }
#endif
  return load_pack<T, N>(data, element);
}

template <class T> DEVICE T load_one(const char* data, u32 element) {
  return ((const T*)data)[element];
}

template <class T> DEVICE void store_one(char* data, u32 element, T value) {
  ((T*)data)[element] = value;
}

// Elements `element` to element + N - 1 of an operand of `count` elements; those after its end are
// `filler`. is_aligned: element 0 is at an address divisible by 16.
template <class T, int N>
DEVICE pack<T, N> load_within(const char* data, u32 element, u32 count, bool is_aligned,
                              T filler = T{}) {
  if (is_aligned && element + N <= count) return load_pack<T, N>(data, element);
  pack<T, N> loaded;
#pragma unroll
  for (u32 e = 0; e < N; ++e) {
    loaded.at[e] = element + e < count ? load_one<T>(data, element + e) : filler;
  }
  return loaded;
}

template <class T, int N>
DEVICE void store_within(char* data, u32 element, u32 count, bool is_aligned, pack<T, N> value) {
  if (is_aligned && element + N <= count) return store_pack<T, N>(data, element, value);
#pragma unroll
  for (u32 e = 0; e < N; ++e) {
    if (element + e < count) store_one(data, element + e, value.at[e]);
  }
}

template <int OPERANDS> DEVICE bool all_aligned(char* const (&data)[OPERANDS]) {
  u64 bits = 0;
#pragma unroll
  for (int k = 0; k < OPERANDS; ++k) bits |= (u64)data[k];
  return (bits & 15) == 0;
}

#endif
