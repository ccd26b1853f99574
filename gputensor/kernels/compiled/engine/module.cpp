// The library's Python interface: functions that take ndarrays and numbers, as ufuncs do.
//
// A bound loop is a builtin function; a call costs about 40 ns. A call with unexpected arguments
// (an array of another dtype, byte order or alignment, a number of another kind, operands that
// partly overlap) is passed to `otherwise`, NumPy's loop of the operator. Functions of a family
// with the names and arguments of NumPy's functions work in the same way: see `serve`.
#define IMPORTS_NUMPY
#include "operands.h"

#include <string.h>

#include "threads.h"

#define AT(NAME) namespace NAME { extern const abi::Capability capability; }
#ifdef WITH_AVX2
AT(avx2)
#endif
#ifdef WITH_AVX512
AT(avx512)
#endif
#ifdef WITH_NEON
AT(neon)
#endif
#undef AT

namespace {

using namespace engine;
using abi::Array;
using abi::Scalar;

// --- loops over elements ------------------------------------------------------------------------

struct Bound {
  Program program;
  abi::Loop loop;               // only if the program consists of this loop
  bool (*takes)(const char*, i64);  // see abi.h
  int inputs, scalars, computed;
  int kind[MOST_INPUTS], out;   // dtypes; NUMBER
  bool is_bare;                 // no casts
  bool rounds_numbers;          // see abi.h
  PyObject* otherwise;
};

// (*inputs, *scalars, out or None): loops of several ufuncs take `out` only by position.
PyObject* hand_over(const Bound* bound, PyObject* const* args, Py_ssize_t n, PyObject* out) {
  PyObject* given = PyTuple_New(n + 1);
  if (!given) return nullptr;
  for (Py_ssize_t k = 0; k <= n; k++) {
    PyObject* x = k < n ? args[k] : out ? out : Py_None;
    Py_INCREF(x);
    PyTuple_SetItem(given, k, x);
  }
  PyObject* made = PyObject_Call(bound->otherwise, given, nullptr);
  Py_DECREF(given);
  return made;
}

// The strides of a result with an array's order of dimensions. False if the array has gaps or
// elements that share memory.
bool strides_like(PyArrayObject* array, int out, npy_intp* strides) {
  const npy_intp *shape = PyArray_DIMS(array), *from = PyArray_STRIDES(array);
  const int ndim = PyArray_NDIM(array);
  npy_intp next = PyArray_ITEMSIZE(array), made = ITEMSIZE[out];
  for (int d = 0; d < ndim; d++) strides[d] = shape[d] == 1 ? made : 0;
  for (int turn = 0; turn < ndim; turn++)
    for (int d = 0; d < ndim; d++)
      if (!strides[d] && from[d] == next) {
        strides[d] = made;
        next *= shape[d], made *= shape[d];
        break;
      }
  for (int d = 0; d < ndim; d++)
    if (!strides[d]) return false;
  return ndim > 0;
}

// Make a new array for the result, in the layout of the first array that has the result's shape,
// otherwise row-major.
PyObject* new_result(const Bound* bound, PyArrayObject* const* in, int ndim,
                     const npy_intp* shape) {
  PyArray_Descr* of = descr[bound->out];
  Py_INCREF((PyObject*)of);
  for (int k = 0; k < bound->inputs; k++) {
    if (!in[k] || PyArray_NDIM(in[k]) != ndim) continue;
    if (memcmp(PyArray_DIMS(in[k]), shape, ndim * sizeof(npy_intp))) continue;
    if (PyArray_IS_C_CONTIGUOUS(in[k])) break;
    npy_intp strides[NPY_MAXDIMS];
    if (strides_like(in[k], bound->out, strides))
      return (PyObject*)new_array(of, ndim, shape, strides);
    return PyArray_NewLikeArray(in[k], NPY_KEEPORDER, of, 0);
  }
  return (PyObject*)new_array(of, ndim, shape, nullptr);
}

void run(const Bound* bound, const Walk& walk, const Scalar* scalars) {
  if (walk.numel < KEEP_LOCK) {
    engine::run(bound->program, walk, scalars);
    return;
  }
  PyThreadState* state = PyEval_SaveThread();
  engine::run(bound->program, walk, scalars);
  PyEval_RestoreThread(state);
}

struct Second {
  const Bound* bound;
  const char* data;
  bool is_refused;
};

void look_at_second(void* context, i64 first, i64 last) {
  Second* second = (Second*)context;
  const i64 item = second->bound->program.itemsize[2];
  if (!second->bound->takes(second->data + first * item, last - first)) second->is_refused = true;
}

// True if the loop accepts the second input: see abi.h. If the input's elements are not dense, or
// must be cast first, it returns false and NumPy's loop runs.
bool takes_second(const Bound* bound, PyArrayObject* x, const Scalar* number) {
  if (!x) return bound->takes((const char*)number, 1);
  if (bound->kind[1] != bound->computed) return false;
  if (!PyArray_IS_C_CONTIGUOUS(x) && !PyArray_IS_F_CONTIGUOUS(x)) return false;
  Second second = {bound, PyArray_BYTES(x), false};
  const i64 n = PyArray_SIZE(x);
  if (n < KEEP_LOCK) {
    look_at_second(&second, 0, n);
  } else {
    PyThreadState* state = PyEval_SaveThread();
    engine::share(look_at_second, &second, n, 1 << 16);
    PyEval_RestoreThread(state);
  }
  return !second.is_refused;
}

// (*inputs, *scalars, out=None) -> out
PyObject* call_loop(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Bound* bound = (const Bound*)PyCapsule_GetPointer(self, nullptr);
  const int inputs = bound->inputs, expected = inputs + bound->scalars;
  PyObject* out = n > expected ? args[expected] : nullptr;
  Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
  if (n < expected || n > expected + 1 || n_names > 1 || (n_names && out)) {
    PyErr_Format(PyExc_TypeError, "a loop takes %d operands, %d numbers and 'out' (got %zd)",
                 inputs, bound->scalars, n);
    return nullptr;
  }
  if (n_names) out = args[n];
  if (out == Py_None) out = nullptr;

  PyArrayObject* in[MOST_INPUTS];
  PyArrayObject* first = nullptr;
  Scalar number[MOST_INPUTS], scalars[abi::MOST_SCALARS];
  bool is_alike = true;
  for (int k = 0; k < inputs; k++) {
    in[k] = nullptr;
    if (bound->kind[k] == NUMBER) {
      const int done = enter(&number[k], args[k], bound->computed, bound->rounds_numbers);
      if (done < 0) return nullptr;
      if (!done) return hand_over(bound, args, expected, out);
      continue;
    }
    PyArrayObject* x = (PyArrayObject*)args[k];
    if (!PyArray_CheckExact(args[k]) || !is_of(x, bound->kind[k]) || !PyArray_ISALIGNED(x))
      return hand_over(bound, args, expected, out);
    in[k] = x;
    if (!first) {
      first = x;
      is_alike = is_alike && PyArray_IS_C_CONTIGUOUS(x);
    } else {
      is_alike = is_alike && PyArray_IS_C_CONTIGUOUS(x) && PyArray_NDIM(x) == PyArray_NDIM(first) &&
                 !memcmp(PyArray_DIMS(x), PyArray_DIMS(first), PyArray_NDIM(x) * sizeof(npy_intp));
    }
  }
  for (int k = 0; k < bound->scalars; k++) {
    const int done = enter(&scalars[k], args[inputs + k], bound->computed);
    if (done < 0) return nullptr;
    if (!done) return hand_over(bound, args, expected, out);
  }
  PyArrayObject* result = (PyArrayObject*)out;
  if (out) {
    if (!PyArray_CheckExact(out) || !is_of(result, bound->out) || !PyArray_ISBEHAVED(result))
      return hand_over(bound, args, expected, out);
    is_alike = is_alike && first && PyArray_IS_C_CONTIGUOUS(result) &&
               PyArray_NDIM(result) == PyArray_NDIM(first) &&
               !memcmp(PyArray_DIMS(result), PyArray_DIMS(first),
                       PyArray_NDIM(result) * sizeof(npy_intp));
    for (int k = 0; k < inputs; k++) {
      if (!in[k] || is_same_view(in[k], result)) continue;
      if (may_overlap(in[k], result)) return hand_over(bound, args, expected, out);
    }
  }
  if (!first) return hand_over(bound, args, expected, out);

  // the common shape after broadcasting
  int ndim = PyArray_NDIM(first);
  const npy_intp* shape = PyArray_DIMS(first);
  npy_intp common[NPY_MAXDIMS];
  if (!is_alike) {
    ndim = out ? PyArray_NDIM(result) : 0;
    for (int k = 0; k < inputs; k++)
      if (in[k] && PyArray_NDIM(in[k]) > ndim) ndim = PyArray_NDIM(in[k]);
    for (int d = 0; d < ndim; d++) common[d] = 1;
    for (int k = 0; k < inputs; k++) {
      if (!in[k]) continue;
      const int lead = ndim - PyArray_NDIM(in[k]);
      for (int d = lead; d < ndim; d++) {
        const npy_intp size = PyArray_DIM(in[k], d - lead);
        if (size == common[d] || size == 1) continue;
        if (common[d] != 1) return hand_over(bound, args, expected, out);
        common[d] = size;
      }
    }
    if (out) {
      if (PyArray_NDIM(result) != ndim) return hand_over(bound, args, expected, out);
      for (int d = 0; d < ndim; d++) {
        // every input has a single value there
        if (common[d] == 1) common[d] = PyArray_DIM(result, d);
        if (PyArray_DIM(result, d) != common[d]) return hand_over(bound, args, expected, out);
      }
    }
    shape = common;
  }
  if (bound->takes && !takes_second(bound, in[1], &number[1]))
    return hand_over(bound, args, expected, out);
  if (!out) {
    result = (PyArrayObject*)new_result(bound, in, ndim, shape);
    if (!result) return nullptr;
  }

  Walk walk;
  const i64 numel = PyArray_SIZE(result);
  walk.numel = numel;
  if (numel == 0) {
  } else if (is_alike && bound->is_bare && numel < KEEP_LOCK) {
    char* data[MOST_INPUTS + 1] = {PyArray_BYTES(result)};
    i64 step[MOST_INPUTS + 1] = {bound->program.itemsize[0]};
    for (int k = 0; k < inputs; k++) {
      data[k + 1] = in[k] ? PyArray_BYTES(in[k]) : (char*)&number[k];
      step[k + 1] = in[k] ? bound->program.itemsize[k + 1] : 0;
    }
    bound->loop(data, step, numel, scalars);
    clear_upper_halves();
  } else {
    walk.ndim = is_alike ? 1 : ndim;
    walk.data[0] = PyArray_BYTES(result);
    for (int k = 0; k < inputs; k++)
      walk.data[k + 1] = in[k] ? PyArray_BYTES(in[k]) : (char*)&number[k];
    if (is_alike) {
      walk.size[0] = numel;
      walk.stride[0][0] = bound->program.itemsize[0];
      for (int k = 0; k < inputs; k++)
        walk.stride[k + 1][0] = in[k] ? bound->program.itemsize[k + 1] : 0;
    } else {
      for (int d = 0; d < ndim; d++) {  // the last dimension first
        const int from = ndim - 1 - d;
        walk.size[d] = shape[from];
        walk.stride[0][d] = PyArray_STRIDE(result, from);
        for (int k = 0; k < inputs; k++) {
          const int at = in[k] ? from - (ndim - PyArray_NDIM(in[k])) : -1;
          const bool varies = at >= 0 && PyArray_DIM(in[k], at) != 1;
          walk.stride[k + 1][d] = varies ? PyArray_STRIDE(in[k], at) : 0;
        }
      }
      engine::coalesce(walk, inputs + 1);
    }
    run(bound, walk, scalars);
  }
  if (out) Py_INCREF(out);
  return (PyObject*)result;
}

PyMethodDef loop_method = {"loop", (PyCFunction)(void (*)(void))call_loop,
                           METH_FASTCALL | METH_KEYWORDS,
                           "(*inputs, *scalars, out=None) -> out, or a new array."};
// The name marks a loop that reads values before it runs; `stub.looks_at_values` tests it.
PyMethodDef looking_method = {"looking_loop", (PyCFunction)(void (*)(void))call_loop,
                              METH_FASTCALL | METH_KEYWORDS, loop_method.ml_doc};

void forget_bound(PyObject* capsule) {
  Bound* bound = (Bound*)PyCapsule_GetPointer(capsule, nullptr);
  Py_XDECREF(bound->otherwise);
  PyMem_Free(bound);
}

// (family, op, kinds, common, result, otherwise) -> a loop, or None
PyObject* bind(PyObject*, PyObject* args) {
  const char *family, *op;
  PyObject *kinds, *otherwise;
  int common, out;
  if (!PyArg_ParseTuple(args, "ssOiiO", &family, &op, &kinds, &common, &out, &otherwise))
    return nullptr;
  const abi::Family* found = family_of(family);
  const abi::LoopEntry* entry = loop_of(found, op, common);
  if (!entry || PyTuple_Size(kinds) != entry->inputs) Py_RETURN_NONE;

  for (int k = 0; k < entry->inputs; k++)  // a condition does not have the common dtype
    if (PyLong_AsLong(PyTuple_GetItem(kinds, k)) == NUMBER && entry->input[k] != common)
      Py_RETURN_NONE;
  Bound* bound = (Bound*)PyMem_Calloc(1, sizeof(Bound));
  if (!bound) return PyErr_NoMemory();
  Program& program = bound->program;
  bound->loop = entry->loop, bound->inputs = entry->inputs, bound->scalars = entry->scalars;
  bound->takes = entry->takes;
  bound->computed = common, bound->out = out;
  bound->rounds_numbers = found->rounds_numbers;
  program.n_outputs = 1, program.n_operands = program.n_slots = entry->inputs + 1;
  program.capability = capability;
  program.itemsize[0] = ITEMSIZE[out];
  Step last = {};
  last.loop = entry->loop;
  last.n_slots = entry->inputs + 1;
  bound->is_bare = true;
  const auto cast_between = [&](int to_slot, int from_slot, int to, int from) {
    Step& step = program.step[program.n_steps++];
    step = {};
    step.cast = capability->casts[from][to];
    step.n_slots = 2, step.slot[0] = to_slot, step.slot[1] = from_slot;
    bound->is_bare = false;
  };
  for (int k = 0; k < entry->inputs; k++) {
    const int kind = (int)PyLong_AsLong(PyTuple_GetItem(kinds, k)), wanted = entry->input[k];
    bound->kind[k] = kind;
    int slot = k + 1;
    program.itemsize[slot] = kind == NUMBER ? 16 : ITEMSIZE[kind];
    program.dtype[slot] = kind == NUMBER ? common : kind;
    program.is_wide[slot] = kind == NUMBER;
    if (kind != NUMBER && kind != wanted) {
      slot = program.n_slots++;
      program.itemsize[slot] = ITEMSIZE[wanted], program.dtype[slot] = wanted;
      cast_between(slot, k + 1, wanted, kind);
    }
    last.slot[k + 1] = slot;
  }
  if (out != entry->result) {
    last.slot[0] = program.n_slots++;
    program.itemsize[last.slot[0]] = ITEMSIZE[entry->result];
  }
  program.step[program.n_steps++] = last;
  if (out != entry->result) cast_between(0, last.slot[0], out, entry->result);
  if (PyErr_Occurred()) {
    PyMem_Free(bound);
    return nullptr;
  }
  Py_INCREF(otherwise);
  bound->otherwise = otherwise;
  PyObject* capsule = PyCapsule_New(bound, nullptr, forget_bound);
  if (!capsule) return nullptr;
  PyObject* made = PyCFunction_NewEx(bound->takes ? &looking_method : &loop_method, capsule,
                                     nullptr);
  Py_DECREF(capsule);
  return made;
}

// --- functions of a family ----------------------------------------------------------------------

constexpr int MOST_ARRAYS = 32, MOST_NUMBERS = 64;

// The arguments of a family's function, converted to C.
struct Given {
  Array array[MOST_ARRAYS];
  i64 integer[MOST_NUMBERS];
  double real[MOST_NUMBERS];
  abi::Call call = {0, 0, 0, array, integer, real, engine::share, engine::threads()};
  i64 most = 0;  // elements of the largest array
  bool are_aligned = true;

  // Returns false, with a Python error set, for an argument that is neither an array nor a number,
  // and for too many arguments.
  bool read(const char* name, PyObject* const* args, Py_ssize_t n);
  bool add(PyObject* given);
  i64 run(const abi::FunctionEntry* entry);
};

bool Given::add(PyObject* given) {
  const bool is_array = PyArray_CheckExact(given);
  if (is_array || given == Py_None) {
    if (call.n_arrays == MOST_ARRAYS) return false;
    Array& to = array[call.n_arrays++];
    to.data = nullptr, to.ndim = 0, to.size = 0, to.dtype = -1;
    if (!is_array) return true;
    PyArrayObject* x = (PyArrayObject*)given;
    to.data = PyArray_BYTES(x), to.ndim = PyArray_NDIM(x), to.size = PyArray_SIZE(x);
    to.itemsize = (int)PyArray_ITEMSIZE(x);
    for (int d = 0; d < abi::N_DTYPES && to.dtype < 0; d++)
      if (PyArray_DESCR(x) == descr[d]) to.dtype = d;
    for (int d = 0; d < abi::N_DTYPES && to.dtype < 0; d++)
      if (PyArray_EquivTypes(PyArray_DESCR(x), descr[d])) to.dtype = d;
    for (int d = 0; d < to.ndim; d++)
      to.shape[d] = PyArray_DIM(x, d), to.stride[d] = PyArray_STRIDE(x, d);
    if (to.size > most) most = to.size;
    if (!PyArray_ISALIGNED(x)) are_aligned = false;
  } else if (PyFloat_CheckExact(given)) {
    if (call.n_floats == MOST_NUMBERS) return false;
    real[call.n_floats++] = PyFloat_AsDouble(given);
  } else {
    if (call.n_ints == MOST_NUMBERS) return false;
    integer[call.n_ints++] = PyLong_AsLongLong(given);
  }
  return true;
}

bool Given::read(const char* name, PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < n; k++) {
    if (!add(args[k])) {
      PyErr_Format(PyExc_TypeError, "%s takes at most %d arrays and %d numbers", name, MOST_ARRAYS,
                   MOST_NUMBERS);
      return false;
    }
    if (call.n_ints && integer[call.n_ints - 1] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

i64 called(const abi::FunctionEntry* entry, const abi::Call& call, bool keeps_lock) {
  PyThreadState* state = keeps_lock ? nullptr : PyEval_SaveThread();
  const i64 answer = entry->function(call);
  clear_upper_halves();
  if (state) PyEval_RestoreThread(state);
  return answer;
}

i64 Given::run(const abi::FunctionEntry* entry) {
  return called(entry, call, most < KEEP_LOCK && !entry->is_long);
}

// (*arrays, ints and floats) -> an int: see abi.h
PyObject* call_function(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const abi::FunctionEntry* entry = (const abi::FunctionEntry*)PyCapsule_GetPointer(self, nullptr);
  Given given;
  if (!given.read(entry->name, args, n)) return nullptr;
  return PyLong_FromLongLong(given.run(entry));
}

PyMethodDef function_method = {"function", (PyCFunction)(void (*)(void))call_function,
                               METH_FASTCALL,
                               "(*arrays, numbers) -> 0, or the place of a bad value plus one."};

struct Served {
  const abi::FunctionEntry* entry;
  PyObject* otherwise;
};

PyObject* call_otherwise(PyObject* otherwise, PyObject* const* args, Py_ssize_t n) {
  PyObject* given = PyTuple_New(n);
  for (Py_ssize_t k = 0; given && k < n; k++) {
    Py_INCREF(args[k]);
    PyTuple_SetItem(given, k, args[k]);
  }
  PyObject* made = given ? PyObject_CallObject(otherwise, given) : nullptr;
  Py_XDECREF(given);
  return made;
}

// (*arrays, ints and floats) -> True; or the result of `otherwise`, if the function returns a
// number other than 0 or an array is not aligned
PyObject* call_served(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Served* served = (const Served*)PyCapsule_GetPointer(self, nullptr);
  Given given;
  if (!given.read(served->entry->name, args, n)) return nullptr;
  if (!given.are_aligned || given.run(served->entry))
    return call_otherwise(served->otherwise, args, n);
  Py_RETURN_TRUE;
}

PyMethodDef served_method = {"served", (PyCFunction)(void (*)(void))call_served, METH_FASTCALL,
                             "(*arrays, numbers) -> True, or what NumPy's function returns."};

void forget_served(PyObject* capsule) {
  Served* served = (Served*)PyCapsule_GetPointer(capsule, nullptr);
  Py_XDECREF(served->otherwise);
  PyMem_Free(served);
}

const abi::FunctionEntry* entry_of(const char* family, const char* name) {
  const abi::Family* found = family_of(family);
  for (int k = 0; found && k < found->n_functions; k++)
    if (!strcmp(found->functions[k].name, name)) return &found->functions[k];
  return nullptr;
}

// (family, name, otherwise) -> a function that passes declined calls to `otherwise`; or None
PyObject* serve(PyObject*, PyObject* args) {
  const char *family, *name;
  PyObject* otherwise;
  if (!PyArg_ParseTuple(args, "ssO", &family, &name, &otherwise)) return nullptr;
  const abi::FunctionEntry* entry = entry_of(family, name);
  if (!entry) Py_RETURN_NONE;
  Served* served = (Served*)PyMem_Calloc(1, sizeof(Served));
  if (!served) return PyErr_NoMemory();
  *served = {entry, otherwise};
  Py_INCREF(otherwise);
  PyObject* capsule = PyCapsule_New(served, nullptr, forget_served);
  if (!capsule) return nullptr;
  PyObject* made = PyCFunction_NewEx(&served_method, capsule, nullptr);
  Py_DECREF(capsule);
  return made;
}

// (family, name) -> a function, or None
PyObject* function(PyObject*, PyObject* args) {
  const char *family, *name;
  if (!PyArg_ParseTuple(args, "ss", &family, &name)) return nullptr;
  const abi::FunctionEntry* entry = entry_of(family, name);
  if (!entry) Py_RETURN_NONE;
  PyObject* capsule = PyCapsule_New((void*)entry, nullptr, nullptr);
  if (!capsule) return nullptr;
  PyObject* made = PyCFunction_NewEx(&function_method, capsule, nullptr);
  Py_DECREF(capsule);
  return made;
}

// --- reductions ---------------------------------------------------------------------------------

struct BoundReduction {
  const abi::FunctionEntry* entry;
  int given, out;  // dtypes
  double number;   // a parameter of some operators
  PyObject* otherwise;
};

void fill(Array* to, PyArrayObject* from, int dtype) {
  to->data = PyArray_BYTES(from), to->size = PyArray_SIZE(from);
  to->ndim = PyArray_NDIM(from), to->dtype = dtype, to->itemsize = ITEMSIZE[dtype];
  for (int d = 0; d < to->ndim; d++)
    to->shape[d] = PyArray_DIM(from, d), to->stride[d] = PyArray_STRIDE(from, d);
}

// Return a mask of the axes; -1 for unexpected values.
i64 axes_of(PyObject* given, int ndim) {
  if (given == Py_None) return ndim == 64 ? -1 : ((i64)1 << ndim) - 1;
  if (!PyTuple_Check(given)) return -1;
  i64 found = 0;
  for (Py_ssize_t k = 0; k < PyTuple_Size(given); k++) {
    PyObject* axis = PyTuple_GetItem(given, k);
    if (!PyLong_CheckExact(axis)) return -1;
    const long long value = PyLong_AsLongLong(axis);
    if (value < 0 || value >= ndim || value > 62) {
      PyErr_Clear();
      return -1;
    }
    found |= (i64)1 << value;
  }
  return found;
}

// (array, axes, None, out, keepdims=False) -> out
PyObject* call_reduction(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const BoundReduction* bound = (const BoundReduction*)PyCapsule_GetPointer(self, nullptr);
  const auto hand_over = [&] { return call_otherwise(bound->otherwise, args, n); };
  if (n < 4 || n > 5 || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[3]))
    return hand_over();
  PyArrayObject *x = (PyArrayObject*)args[0], *out = (PyArrayObject*)args[3];
  if (!is_of(x, bound->given) || !PyArray_ISALIGNED(x) || !is_of(out, bound->out) ||
      !PyArray_ISBEHAVED(out))
    return hand_over();
  const i64 axes = axes_of(args[1], PyArray_NDIM(x));
  if (axes < 0) return hand_over();
  Array array[3];
  fill(&array[0], x, bound->given);
  fill(&array[1], out, bound->out);
  array[2].data = nullptr;
  const abi::Call call = {3, 1, 1, array, &axes, &bound->number, engine::share};
  if (called(bound->entry, call, array[0].size < KEEP_LOCK)) return PyErr_NoMemory();
  Py_INCREF(args[3]);
  return args[3];
}

PyMethodDef reduction_method = {"reduction", (PyCFunction)(void (*)(void))call_reduction,
                                METH_FASTCALL, "(array, axes, None, out, keepdims=False) -> out."};

void forget_reduction(PyObject* capsule) {
  BoundReduction* bound = (BoundReduction*)PyCapsule_GetPointer(capsule, nullptr);
  Py_XDECREF(bound->otherwise);
  PyMem_Free(bound);
}

// (family, name, given, out, otherwise, number) -> a reduction, called like np.ufunc.reduce; or
// None. given, out: dtypes. otherwise: the function for calls that the reduction declines.
PyObject* reduction(PyObject*, PyObject* args) {
  const char *family, *name;
  int given, out;
  double number;
  PyObject* otherwise;
  if (!PyArg_ParseTuple(args, "ssiiOd", &family, &name, &given, &out, &otherwise, &number))
    return nullptr;
  const abi::FunctionEntry* entry = entry_of(family, name);
  if (!entry) Py_RETURN_NONE;
  BoundReduction* bound = (BoundReduction*)PyMem_Calloc(1, sizeof(BoundReduction));
  if (!bound) return PyErr_NoMemory();
  *bound = {entry, given, out, number, otherwise};
  Py_INCREF(otherwise);
  PyObject* capsule = PyCapsule_New(bound, nullptr, forget_reduction);
  if (!capsule) return nullptr;
  PyObject* made = PyCFunction_NewEx(&reduction_method, capsule, nullptr);
  Py_DECREF(capsule);
  return made;
}

// --- the library --------------------------------------------------------------------------------

struct Known {
  const char* name;
  const abi::Capability* capability;
};

// The built capabilities that this CPU supports, the best one last.
int known(Known* to) {
  int n = 0;
#ifdef WITH_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    to[n++] = {"avx2", &avx2::capability};
#endif
#ifdef WITH_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    to[n++] = {"avx512", &avx512::capability};
#endif
#ifdef WITH_NEON
  to[n++] = {"neon", &neon::capability};
#endif
  return n;
}

PyObject* capabilities(PyObject*, PyObject*) {
  Known found[4];
  const int n = known(found);
  PyObject* names = PyTuple_New(n);
  for (int k = 0; names && k < n; k++)
    PyTuple_SetItem(names, k, PyUnicode_FromString(found[k].name));
  return names;
}

// (name, the dtypes in the order of their codes)
PyObject* use(PyObject*, PyObject* args) {
  const char* name;
  PyObject* dtypes;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyTuple_Type, &dtypes)) return nullptr;
  if (PyTuple_Size(dtypes) != abi::N_DTYPES) {
    PyErr_SetString(PyExc_ValueError, "use: one dtype per code");
    return nullptr;
  }
  Known found[4];
  const int n = known(found);
  for (int k = 0; k < n; k++) {
    if (strcmp(found[k].name, name)) continue;
    for (int d = 0; d < abi::N_DTYPES; d++) {
      PyArray_Descr* old = descr[d];
      descr[d] = (PyArray_Descr*)PyTuple_GetItem(dtypes, d);
      Py_INCREF((PyObject*)descr[d]);
      Py_XDECREF((PyObject*)old);
    }
    engine::capability = found[k].capability;
    Py_RETURN_NONE;
  }
  PyErr_Format(PyExc_ValueError, "use: this CPU or this build has no capability %s", name);
  return nullptr;
}

PyObject* set_threads(PyObject*, PyObject* count) {
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(count, &overflow);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  engine::set_threads(overflow || value > 1 << 20 ? 1 << 20 : (int)value);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    program_method,
    allocate_method,
    empty_method,
    address_of_method,
    memory_in_use_method,
    empty_cache_method,
    {"bind", bind, METH_VARARGS, "(family, op, kinds, common, out, otherwise) -> a loop, or None."},
    {"capabilities", capabilities, METH_NOARGS, "What this CPU can run, the best last."},
    {"function", function, METH_VARARGS, "(family, name) -> a function, or None."},
    {"reduction", reduction, METH_VARARGS,
     "(family, name, given, out, otherwise, number) -> a reduction, or None."},
    {"serve", serve, METH_VARARGS,
     "(family, name, otherwise) -> a function that hands over what it does not take, or None."},
    {"set_threads", set_threads, METH_O, "Let loops use so many threads."},
    {"use", use, METH_VARARGS, "(capability, dtypes): bind its loops from now on."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_library", "Loops compiled ahead of time.", -1,
                          methods};

}  // namespace

PyMODINIT_FUNC PyInit__library(void) {
  import_array();
  return PyModule_Create(&definition);
}
