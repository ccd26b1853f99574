// Calls of a chain's program: their arrays and numbers. See chain.h.
#include "chain.h"

namespace engine {
namespace {

using abi::Scalar;

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
    if (!PyArray_CheckExact(args[k]) || !is_of(x, chain.dtype[k]) || !PyArray_ISALIGNED(x))
      return false;
    if (k < program.n_outputs && !PyArray_ISWRITEABLE(x)) return false;
  }
  return true;
}

// The layout of a call by rows. An array of another shape than the program's is contiguous.
bool read_rows(const Chain& chain, PyObject* const* args, Walk& walk) {
  const Program& program = chain.program;
  if (!are_expected(chain, args) || !are_apart(chain, args)) return false;
  walk.ndim = chain.ndim;
  for (int d = 0; d < 2; d++) walk.size[d] = chain.size[d];
  walk.numel = walk.size[0] * walk.size[1];
  for (int k = 0; k < program.n_operands; k++) {
    PyArrayObject* x = (PyArrayObject*)args[k];
    const i64* shape = chain.shape[k];
    if (PyArray_SIZE(x) != shape[0] * shape[1]) return false;
    bool is_alike = PyArray_NDIM(x) == walk.ndim && !program.is_row[k];
    for (int d = 0; is_alike && d < walk.ndim; d++)
      is_alike = PyArray_DIM(x, walk.ndim - 1 - d) == shape[d];
    if (!is_alike && !PyArray_IS_C_CONTIGUOUS(x)) return false;
    walk.data[k] = PyArray_BYTES(x);
    i64 contiguous = program.itemsize[k];
    for (int d = 0; d < walk.ndim; contiguous *= shape[d++]) {
      const bool is_one = (shape[d] == 1 && k >= program.n_outputs) || (program.is_row[k] && !d);
      walk.stride[k][d] = is_one ? 0 : is_alike ? PyArray_STRIDE(x, walk.ndim - 1 - d) : contiguous;
    }
  }
  return true;
}

// The layout of a call. Its shape is the outputs' shape. Returns false for unexpected arguments.
bool read_arrays(const Chain& chain, PyObject* const* args, Walk& walk) {
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
  if (!(program.row ? read_rows : read_arrays)(chain, args, walk)) Py_RETURN_FALSE;
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
  return PyBool_FromLong(is_done);
}

}  // namespace

PyMethodDef call_method = {"program", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
                           "(*outputs, *inputs, numbers, may_share) -> whether it is done."};

}  // namespace engine
