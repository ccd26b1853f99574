// The interface between the engine and the loops of each capability. It declares data but no
// functions, so it does not depend on compiler flags.
#ifndef GPUTENSOR_ABI
#define GPUTENSOR_ABI

namespace abi {

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned char byte;

constexpr int MOST_OPERANDS = 8;  // arrays per call, including outputs
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

struct alignas(16) Scalar { u64 low, high; };  // a number, as bytes of the type that the loop reads

// A loop over n elements from data[k] on, outputs first. step[k] is the size of an element, or 0
// for a single value that is used for all elements and has the type of the computation. Outputs are
// dense. data[0] may equal data[k].
typedef void (*Loop)(char* const* data, const i64* step, i64 n, const Scalar* scalars);

struct LoopEntry {
  const char* name;
  byte input[5], result, common;  // dtypes of each input, of the result, and of the computation
  byte inputs, scalars;             // the number of inputs
  Loop loop;
  // if not null: true if the loop accepts these n dense elements as its second input
  bool (*takes)(const char* second, i64 n);
};

// An array argument of a family's function. data is null for None.
struct Array {
  char* data;
  i64 size;  // elements
  int ndim, dtype, itemsize;
  i64 shape[MOST_DIMS], stride[MOST_DIMS];  // elements; bytes
};

// Run body(context, first, last) over parts of [0, units), `step` units at a time, on the library's
// threads. Returns when all parts are done.
typedef void (*Body)(void* context, i64 first, i64 last);
typedef void (*Share)(Body body, void* context, i64 units, i64 step);

// A call of a family's function: its arrays, its integers and its floats, each in the order of the
// arguments.
struct Call {
  int n_arrays, n_ints, n_floats;
  const Array* array;
  const i64* integer;
  const double* real;
  Share share;
  int threads;  // the maximum number of threads of `share`
};

// Returns 0, or 1 + the position of a bad value (such as an index out of bounds). The Python caller
// then raises an error.
typedef i64 (*Function)(const Call& call);

struct FunctionEntry {
  const char* name;  // "op dtype[ dtype…]", the name used by Python
  Function function;
  bool is_long;      // slow even for few elements, so the interpreter's lock is released
};

// A family has loops or functions.
struct Family {
  const char* name;
  const LoopEntry* loops;
  int n_loops;
  const FunctionEntry* functions;
  int n_functions;
  // True if a number beside f16 or bf16 operands is rounded to their type, as in PyTorch. In other
  // loops it is an f32.
  bool rounds_numbers;

  template <int N>
  constexpr Family(const char* name, const LoopEntry (&loops)[N], bool rounds_numbers = false)
      : name(name), loops(loops), n_loops(N), functions(nullptr), n_functions(0),
        rounds_numbers(rounds_numbers) {}
  template <int N>
  constexpr Family(const char* name, const FunctionEntry (&functions)[N])
      : name(name), loops(nullptr), n_loops(0), functions(functions), n_functions(N),
        rounds_numbers(false) {}
};

// Cast n elements from one dtype to another; both sides are dense.
typedef void (*Cast)(char* to, const char* from, i64 n);
// Copy a strided operand to dense memory, or back: `rows` rows of n elements.
typedef void (*Move)(char* dense, char* strided, i64 n, i64 step, i64 rows, i64 row_step);

struct Machine;  // machine.h

struct Capability {
  const char* name;
  const Family* const* families;
  int n_families;
  const Cast (*casts)[N_DTYPES];          // [from][to]
  const Cast* widen;                      // [dtype]: casts to the computation's type
  const Move *pack, *unpack;              // [log2 of the element's size]
  const Machine* machine;
};

}  // namespace abi

#endif
