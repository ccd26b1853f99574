// What functions that Python calls know of the library and of ndarrays.
//
// Built for CPython's stable ABI and NumPy's, so that one build serves every version from 3.11 on.
#ifndef GPUTENSOR_OPERANDS
#define GPUTENSOR_OPERANDS

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL gputensor_numpy
#ifndef IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <Python.h>
#include <numpy/arrayobject.h>

#include "program.h"

namespace engine {

// Below this many elements the interpreter's lock is kept: to hand it over costs as much.
constexpr i64 KEEP_LOCK = 1 << 14;
constexpr int MOST_INPUTS = 3;
constexpr int NUMBER = -1;  // in the place of an operand's dtype
extern const int ITEMSIZE[];

// Those that `use` of module.cpp has chosen.
extern const abi::Capability* capability;
extern PyArray_Descr* descr[abi::N_DTYPES];

// Null where there is none.
const abi::Family* family_of(const char* name);
const abi::LoopEntry* loop_of(const abi::Family* family, const char* name, int common);

bool is_of(PyArrayObject* array, int dtype);

// A number as a loop of this common dtype takes it. rounds: to f16 or bf16, see abi.h. 1: done;
// 0: not a number that is expected here; -1: an error is set.
int enter(abi::Scalar* to, PyObject* given, int common, bool rounds = false);

bool is_same_view(PyArrayObject* a, PyArrayObject* b);
// Whether there are bytes between the first and the last of both.
bool may_overlap(PyArrayObject* a, PyArrayObject* b);

// _library.program; see chain.cpp.
extern PyMethodDef program_method;

}  // namespace engine

#endif
