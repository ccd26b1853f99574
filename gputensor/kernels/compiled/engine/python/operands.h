// Declarations about the library and ndarrays, for the functions called by Python.
//
// They use the stable ABIs of CPython and NumPy, so one build works with all versions from 3.11 on.
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

#include "../program.h"

namespace engine {

// Below this number of elements the interpreter's lock is kept: releasing it costs as much as the
// work.
constexpr i64 KEEP_LOCK = 1 << 14;
constexpr int MOST_INPUTS = 5;
constexpr int NUMBER = -1;  // in place of an operand's dtype: a number
extern const int ITEMSIZE[];

// the loops that `use` of module.cpp chose
extern const abi::Capability* capability;
extern PyArray_Descr* descr[abi::N_DTYPES];

// null if there is none
const abi::Family* family_of(const char* name);
const abi::LoopEntry* loop_of(const abi::Family* family, const char* name, int common);

bool is_of(PyArrayObject* array, int dtype);

// Convert a number to the form for a loop of this common dtype. rounds: to f16 or bf16, see abi.h.
// Returns 1 if done, 0 for an unexpected number, -1 if an error is set.
int enter(abi::Scalar* to, PyObject* given, int common, bool rounds = false);

bool is_same_view(PyArrayObject* a, PyArrayObject* b);
// True if the memory ranges of both arrays overlap.
bool may_overlap(PyArrayObject* a, PyArrayObject* b);

// _library.program; see chain/chain.cpp.
extern PyMethodDef program_method;
// See elementwise.cpp and functions.cpp.
extern PyMethodDef bind_method, make_function_method, make_reduction_method, serve_method;
// Make an uninitialised array, like PyArray_NewFromDescr; large ones in kept memory (blocks.cpp).
// of: the function takes over this reference. strides: in bytes, without gaps; null for row-major
// ones.
PyArrayObject* new_array(PyArray_Descr* of, int ndim, const npy_intp* shape,
                         const npy_intp* strides);
extern PyMethodDef allocate_method, empty_method, address_of_method, memory_in_use_method,
    empty_cache_method;

}  // namespace engine

#endif
