// Loops over elements, bound for Python: functions that take ndarrays and numbers, as ufuncs do.
//
// A bound loop is a builtin function; a call costs about 40 ns. A call with unexpected arguments
// (an array of another dtype, byte order or alignment, a number of another kind, operands that
// partly overlap) is passed to `otherwise`, NumPy's loop of the operator.
#include "operands.h"

#include <string.h>

#include "../threads.h"

namespace engine {
namespace {

using abi::Scalar;

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

}  // namespace

PyMethodDef bind_method = {"bind", bind, METH_VARARGS,
                           "(family, op, kinds, common, out, otherwise) -> a loop, or None."};

}  // namespace engine
