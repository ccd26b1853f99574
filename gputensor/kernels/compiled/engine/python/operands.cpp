// See operands.h.
#include "operands.h"

#include <string.h>

namespace engine {

using abi::Scalar;

const abi::Capability* capability;
PyArray_Descr* descr[abi::N_DTYPES];
const int ITEMSIZE[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 4};

const abi::Family* family_of(const char* name) {
  for (int k = 0; capability && k < capability->n_families; k++)
    if (!strcmp(capability->families[k]->name, name)) return capability->families[k];
  return nullptr;
}

const abi::LoopEntry* loop_of(const abi::Family* family, const char* name, int common) {
  for (int k = 0; family && k < family->n_loops; k++)
    if (family->loops[k].common == common && !strcmp(family->loops[k].name, name))
      return &family->loops[k];
  return nullptr;
}

bool is_of(PyArrayObject* array, int dtype) {
  PyArray_Descr* of = PyArray_DESCR(array);
  return of == descr[dtype] || PyArray_EquivTypes(of, descr[dtype]);
}

template <class T> static void put(Scalar* to, T value) { memcpy(to, &value, sizeof value); }

int enter(Scalar* to, PyObject* given, int common, bool rounds) {
  if (common >= abi::c64) {
    double re, im = 0;
    if (PyComplex_CheckExact(given)) {
      re = PyComplex_RealAsDouble(given), im = PyComplex_ImagAsDouble(given);
    } else if (PyFloat_CheckExact(given) || PyLong_Check(given)) {
      re = PyFloat_AsDouble(given);
      if (re == -1 && PyErr_Occurred()) return -1;
    } else {
      return 0;
    }
    if (common == abi::c128) {
      double both[2] = {re, im};
      memcpy(to, both, sizeof both);
    } else {
      float both[2] = {(float)re, (float)im};
      memcpy(to, both, sizeof both);
    }
    return 1;
  }
  if (common >= abi::f16) {
    if (!PyFloat_CheckExact(given) && !PyLong_Check(given)) return 0;
    const double value = PyFloat_AsDouble(given);
    if (value == -1 && PyErr_Occurred()) return -1;
    if (common == abi::f64) {
      put(to, value);
      return 1;
    }
    put(to, (float)value);
    if (rounds && common != abi::f32) {
      Scalar narrow;
      capability->casts[abi::f64][common]((char*)&narrow, (const char*)&value, 1);
      capability->widen[common]((char*)to, (const char*)&narrow, 1);
    }
    return 1;
  }
  if (common == abi::b8) {
    const int truth = PyObject_IsTrue(given);
    if (truth < 0) return -1;
    put(to, (unsigned)truth);
    return 1;
  }
  if (!PyLong_Check(given)) return 0;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(given, &overflow);
  if (overflow) return 0;
  switch (common) {
    case abi::u8: put(to, (unsigned)(unsigned char)value); break;
    case abi::i8: put(to, (int)(signed char)value); break;
    case abi::u16: put(to, (unsigned)(unsigned short)value); break;
    case abi::i16: put(to, (int)(short)value); break;
    case abi::u32: put(to, (unsigned)value); break;
    case abi::i32: put(to, (int)value); break;
    default: put(to, value);
  }
  return 1;
}

struct Extent { const char *first, *last; };

static Extent extent_of(PyArrayObject* array) {
  const char* data = PyArray_BYTES(array);
  Extent found = {data, data + PyArray_ITEMSIZE(array)};
  for (int d = 0; d < PyArray_NDIM(array); d++) {
    const npy_intp run = (PyArray_DIM(array, d) - 1) * PyArray_STRIDE(array, d);
    if (run < 0) {
      found.first += run;
    } else {
      found.last += run;
    }
  }
  return found;
}

bool may_overlap(PyArrayObject* a, PyArrayObject* b) {
  const Extent x = extent_of(a), y = extent_of(b);
  return x.first < y.last && y.first < x.last;
}

bool is_same_view(PyArrayObject* a, PyArrayObject* b) {
  if (PyArray_DATA(a) != PyArray_DATA(b) || PyArray_NDIM(a) != PyArray_NDIM(b)) return false;
  const size_t bytes = PyArray_NDIM(a) * sizeof(npy_intp);
  return PyArray_ITEMSIZE(a) == PyArray_ITEMSIZE(b) &&
         !memcmp(PyArray_DIMS(a), PyArray_DIMS(b), bytes) &&
         !memcmp(PyArray_STRIDES(a), PyArray_STRIDES(b), bytes);
}

}  // namespace engine
