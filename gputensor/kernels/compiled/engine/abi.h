// What the engine and the loops of every capability agree on. Both include it. It declares data and
// no function, so nothing here depends on a compiler flag.
#ifndef GPUTENSOR_ABI
#define GPUTENSOR_ABI

namespace abi {

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned char byte;

constexpr int MOST_OPERANDS = 8;  // of one call, outputs included
constexpr int MOST_DIMS = 64;     // NumPy's limit
constexpr int MOST_SCALARS = 8;

// The codes of core/dtype.py.
enum Dtype : byte {
  b8,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64_,
  i64_,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  c32
};
constexpr int N_DTYPES = 16;

struct alignas(16) Scalar { u64 low, high; };  // a number, in the bytes of the type that reads it

// A loop over elements: n of them from data[k] on, outputs first. step[k] is the size of an
// element, or 0 where one value stands for all; such a value is of the type that the loop computes
// in. Outputs are dense. data[0] may be data[k].
typedef void (*Loop)(char* const* data, const i64* step, i64 n, const Scalar* scalars);

struct LoopEntry {
  const char* name;
  byte input[3], result, common;  // dtypes: of each input, of the result, and what they meet in
  byte inputs, scalars;             // how many
  Loop loop;
  // Where it is given: whether the loop takes n dense elements as its second input.
  bool (*takes)(const char* second, i64 n);
};

// An array as a function of a family sees it. data is null where None was given.
struct Array {
  char* data;
  i64 size;  // elements
  int ndim, dtype, itemsize;
  i64 shape[MOST_DIMS], stride[MOST_DIMS];  // elements; bytes
};

// Runs body(context, first, last) over parts of [0, units), `step` units at a time, on the
// library's threads; returns when all are done.
typedef void (*Body)(void* context, i64 first, i64 last);
typedef void (*Share)(Body body, void* context, i64 units, i64 step);

// A call of a family's function: arrays, integers and floats in the order in which they were given.
struct Call {
  int n_arrays, n_ints, n_floats;
  const Array* array;
  const i64* integer;
  const double* real;
  Share share;
  int threads;  // that `share` runs over at most
};

// Returns 0, or the place of a bad value plus one (an index out of bounds, say), which the caller
// in Python turns into a message.
typedef i64 (*Function)(const Call& call);

struct FunctionEntry {
  const char* name;  // "op dtype[ dtype…]", as Python asks for it
  Function function;
  bool is_long;      // takes its time for few elements, too: the interpreter's lock is let go
};

struct Family {
  const char* name;
  const LoopEntry* loops;
  int n_loops;
  const FunctionEntry* functions;
  int n_functions;
  // A number beside f16 or bf16 is rounded to it, as PyTorch does here; elsewhere it enters as f32.
  bool rounds_numbers = false;
};

// From dtype to dtype: n elements, both dense.
typedef void (*Cast)(char* to, const char* from, i64 n);
// Elements of a strided operand into dense memory, or back: `rows` rows of n elements.
typedef void (*Move)(char* dense, char* strided, i64 n, i64 step, i64 rows, i64 row_step);

struct Machine;  // machine.h

struct Capability {
  const char* name;
  const Family* const* families;
  int n_families;
  const Cast (*casts)[N_DTYPES];          // [from][to]
  const Cast* widen;                      // [dtype]: one element to the type that it is computed in
  const Move *pack, *unpack;              // [log2 of the element's size]
  const Machine* machine;
};

}  // namespace abi

#endif
