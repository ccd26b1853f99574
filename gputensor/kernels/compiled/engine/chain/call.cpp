// Calls of a chain's program: their arrays and numbers. See chain.h.
#include <stdlib.h>
#include <string.h>

#include <memory>

#include "chain.h"
#include "../threads.h"

namespace engine {
namespace {

using abi::Scalar;

// Room for the results of runs of most calls, so that they need no memory of their own.
struct Parts {
  alignas(16) char of[2048];
};

// Returns true if no output overlaps an input that is read after the write.
bool are_apart(const Chain& chain, PyObject* const* args) {
  const Program& program = chain.program;
  for (int k = 0; k < program.n_outputs; k++) {
    for (int j = program.n_outputs; j < program.n_operands; j++) {
      PyArrayObject *out = (PyArrayObject*)args[k], *x = (PyArrayObject*)args[j];
      if (!may_overlap(out, x)) continue;
      if (!is_same_view(out, x) || chain.read_later[k] >> (j - program.n_outputs) & 1) return false;
    }
  }
  return true;
}

bool are_expected(const Chain& chain, PyObject* const* args) {
  const Program& program = chain.program;
  for (int k = 0; k < program.n_operands; k++) {
    PyArrayObject* x = (PyArrayObject*)args[k];
    const int dtype = chain.whole[k].merge ? chain.whole[k].dtype : chain.dtype[k];
    if (!PyArray_CheckExact(args[k]) || !is_of(x, dtype) || !PyArray_ISALIGNED(x))
      return false;
    if (k < program.n_outputs && !PyArray_ISWRITEABLE(x)) return false;
  }
  return true;
}

// Memory for the results of the runs of a reduction to one element, and for half as many.
i64 bytes_of_parts(const Chain& chain, int k) {
  const i64 n = chain.whole[k].merge ? chain.shape[k][0] : 0;
  return (n + (n + 1) / 2) * sizeof(Scalar);
}

// The layout of a call by rows. An array of another shape than the program's is contiguous. parts:
// memory for the results of runs.
bool read_rows(const Chain& chain, PyObject* const* args, Walk& walk, char* parts) {
  const Program& program = chain.program;
  if (!are_expected(chain, args) || !are_apart(chain, args)) return false;
  walk.ndim = chain.ndim;
  for (int d = 0; d < 2; d++) walk.size[d] = chain.size[d];
  walk.numel = walk.size[0] * walk.size[1];
  for (int k = 0; k < program.n_operands; k++) {
    PyArrayObject* x = (PyArrayObject*)args[k];
    const i64* shape = chain.shape[k];
    const bool is_whole = chain.whole[k].merge;
    if (PyArray_SIZE(x) != (is_whole ? 1 : shape[0] * shape[1])) return false;
    bool is_alike = PyArray_NDIM(x) == walk.ndim && !program.is_row[k];
    for (int d = 0; is_alike && d < walk.ndim; d++)
      is_alike = PyArray_DIM(x, walk.ndim - 1 - d) == shape[d];
    if (!is_alike && !PyArray_IS_C_CONTIGUOUS(x)) return false;
    walk.data[k] = is_whole ? parts : PyArray_BYTES(x);
    parts += bytes_of_parts(chain, k);
    i64 contiguous = program.itemsize[k];
    for (int d = 0; d < walk.ndim; contiguous *= shape[d++]) {
      const bool is_one = (shape[d] == 1 && k >= program.n_outputs) || (program.is_row[k] && !d);
      walk.stride[k][d] = is_one ? 0 : is_alike ? PyArray_STRIDE(x, walk.ndim - 1 - d) : contiguous;
    }
  }
  return true;
}

// The layout of a call. Its shape is the outputs' shape. Returns false for unexpected arguments.
bool read_arrays(const Chain& chain, PyObject* const* args, Walk& walk, char*) {
  const Program& program = chain.program;
  PyArrayObject* const first = (PyArrayObject*)args[0];
  if (!are_expected(chain, args)) return false;
  const int ndim = PyArray_NDIM(first);
  const npy_intp* shape = PyArray_DIMS(first);
  bool is_flat = true;  // each is contiguous or has one element
  for (int k = 0; k < program.n_operands; k++) {
    PyArrayObject* x = (PyArrayObject*)args[k];
    const int lead = ndim - PyArray_NDIM(x);
    const bool is_output = k < program.n_outputs;
    if (lead < 0 || (is_output && lead)) return false;
    bool is_whole = !lead;
    for (int d = lead; d < ndim; d++) {
      const npy_intp size = PyArray_DIM(x, d - lead);
      if (size == shape[d]) continue;
      if (size != 1 || is_output) return false;
      is_whole = false;
    }
    is_flat = is_flat &&
              ((is_whole && PyArray_IS_C_CONTIGUOUS(x)) || (!is_output && PyArray_SIZE(x) == 1));
    walk.data[k] = PyArray_BYTES(x);
  }
  if (!are_apart(chain, args)) return false;
  walk.numel = PyArray_SIZE(first);
  walk.ndim = is_flat ? 1 : ndim;
  if (is_flat) {
    walk.size[0] = walk.numel;
    for (int k = 0; k < program.n_operands; k++) {
      const bool is_one = k >= program.n_outputs && walk.numel != 1 &&
                          PyArray_SIZE((PyArrayObject*)args[k]) == 1;
      walk.stride[k][0] = is_one ? 0 : program.itemsize[k];
    }
    return true;
  }
  for (int d = 0; d < ndim; d++) {  // the last dimension first
    const int from = ndim - 1 - d;
    walk.size[d] = shape[from];
    for (int k = 0; k < program.n_operands; k++) {
      PyArrayObject* x = (PyArrayObject*)args[k];
      const int at = from - (ndim - PyArray_NDIM(x));
      const bool varies = at >= 0 && PyArray_DIM(x, at) != 1;
      walk.stride[k][d] = varies ? PyArray_STRIDE(x, at) : 0;
    }
  }
  coalesce(walk, program.n_operands);
  return true;
}

// Merge the results of n runs in pairs, in the order of loops/reduction.cpp, and write the total.
// Returns false if the function declines.
bool finish(const Whole& whole, int dtype, char* parts, i64 n, char* out) {
  const int item = ITEMSIZE[dtype];
  char *from = parts, *to = parts + n * sizeof(Scalar);
  for (; n > 1; n = (n + 1) / 2) {
    const i64 half = n / 2, dims = 2;
    abi::Array array[2];  // a multiple of a KiB, uninitialised
    abi::Array &x = array[0], &made = array[1];
    x.data = from, made.data = to;
    x.dtype = made.dtype = dtype, x.itemsize = made.itemsize = item;
    x.ndim = 2, made.ndim = 1, x.shape[0] = made.shape[0] = made.size = half;
    x.shape[1] = 2, x.size = 2 * half;
    x.stride[0] = 2 * item, x.stride[1] = made.stride[0] = item;
    if (whole.merge({2, 1, 0, array, &dims, nullptr, run_whole, 1})) return false;
    if (n % 2) memcpy(to + half * item, from + (n - 1) * item, item);
    char* const before = from;
    from = to, to = before;
  }
  if (whole.over && dtype == abi::f32) *(float*)from /= (float)whole.over;
  if (whole.over && dtype == abi::f64) *(double*)from /= whole.over;
  if (dtype == whole.dtype) memcpy(out, from, item);
  else capability->casts[dtype][whole.dtype](out, from, 1);
  return true;
}

// Returns 1 if done, 0 for unexpected numbers, -1 if an error is set.
int enter_all(const Entered* what, int n, PyObject* given, Scalar* to) {
  for (int k = 0; k < n; k++) {
    PyObject* number = PySequence_GetItem(given, what[k].index);
    if (!number) return -1;
    const int done = enter(&to[k], number, what[k].common, what[k].rounds);
    Py_DECREF(number);
    if (done <= 0) return done;
  }
  return 1;
}

// (*outputs, *inputs, numbers, may_share) -> True if done; otherwise nothing is written
PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Chain& chain = *(const Chain*)PyCapsule_GetPointer(self, nullptr);
  const Program& program = chain.program;
  if (n != program.n_operands + 2) {
    PyErr_Format(PyExc_TypeError, "a program takes %d arrays, numbers and a bool (got %zd)",
                 program.n_operands, n);
    return nullptr;
  }
  Walk walk;
  Scalar numbers[MOST_NUMBERS], scalars[MOST_NUMBERS];
  i64 bytes = 0;
  for (int k = 0; program.row && k < program.n_outputs; k++) bytes += bytes_of_parts(chain, k);
  const bool is_small = bytes <= (i64)sizeof(Parts);
  Parts near;
  const std::unique_ptr<char, void (*)(void*)> far(is_small ? nullptr : (char*)malloc(bytes), free);
  char* const parts = is_small ? near.of : far.get();
  if (!parts) return PyErr_NoMemory();
  if (!(program.row ? read_rows : read_arrays)(chain, args, walk, parts)) Py_RETURN_FALSE;
  PyObject* given = args[program.n_operands];
  int done = enter_all(chain.number, program.n_numbers, given, numbers);
  if (done > 0) done = enter_all(chain.scalar, chain.n_scalars, given, scalars);
  if (done < 0) return nullptr;
  if (!done) Py_RETURN_FALSE;
  const bool may_share = PyObject_IsTrue(args[program.n_operands + 1]) == 1;
  if (!walk.numel) Py_RETURN_TRUE;
  bool is_done;
  if (walk.numel < KEEP_LOCK) {
    is_done = run(program, walk, scalars, numbers, may_share);
  } else {
    PyThreadState* state = PyEval_SaveThread();
    is_done = run(program, walk, scalars, numbers, may_share);
    PyEval_RestoreThread(state);
  }
  for (int k = 0; is_done && bytes && k < program.n_outputs; k++)
    if (chain.whole[k].merge)
      is_done = finish(chain.whole[k], chain.dtype[k], walk.data[k], chain.shape[k][0],
                       PyArray_BYTES((PyArrayObject*)args[k]));
  return PyBool_FromLong(is_done);
}

}  // namespace

PyMethodDef call_method = {"program", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
                           "(*outputs, *inputs, numbers, may_share) -> whether it is done."};

}  // namespace engine
