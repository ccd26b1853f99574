// The library's Python module: its capabilities, its settings, and its table of methods.
#define IMPORTS_NUMPY
#include "operands.h"

#include <string.h>

#include "../threads.h"

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

namespace engine {
namespace {

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
    bind_method,
    {"capabilities", capabilities, METH_NOARGS, "What this CPU can run, the best last."},
    make_function_method,
    make_reduction_method,
    serve_method,
    {"set_threads", set_threads, METH_O, "Let loops use so many threads."},
    {"use", use, METH_VARARGS, "(capability, dtypes): bind its loops from now on."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_library", "Loops compiled ahead of time.", -1,
                          methods};

}  // namespace
}  // namespace engine

PyMODINIT_FUNC PyInit__library(void) {
  import_array();
  return PyModule_Create(&engine::definition);
}
