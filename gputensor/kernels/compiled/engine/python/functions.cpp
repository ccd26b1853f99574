// Functions of a family and reductions, bound for Python with the arguments of NumPy's functions.
//
// A call that a function declines is passed to `otherwise`, NumPy's function: see `serve`.
#include "operands.h"

#include <string.h>

#include "../threads.h"

namespace engine {
namespace {

using abi::Array;

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

}  // namespace

PyMethodDef serve_method = {
    "serve", serve, METH_VARARGS,
    "(family, name, otherwise) -> a function that hands over what it does not take, or None."};
PyMethodDef make_function_method = {"function", function, METH_VARARGS,
                                    "(family, name) -> a function, or None."};
PyMethodDef make_reduction_method = {
    "reduction", reduction, METH_VARARGS,
    "(family, name, given, out, otherwise, number) -> a reduction, or None."};

}  // namespace engine
