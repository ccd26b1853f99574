// Memory of CPU tensors of at least 64 KiB. The memory of freed tensors is kept and reused.
//
// The first write to each page of new memory takes longer than the loop that writes it. malloc
// returns freed large memory to the system, so `x * y + x` of 4 MiB would take ten times as long.
// All functions are called with the interpreter's lock held.
#include "operands.h"

#include <sys/mman.h>

namespace engine {
namespace {

// Block sizes are rounded up to classes, eight for each power of two. So a freed block fits most
// later tensors of about the same size.
constexpr int LOWEST = 16;  // the first class has 1 << LOWEST bytes
#ifdef __SANITIZE_ADDRESS__
constexpr size_t LEAST = -1;  // so that a sanitizer checks the memory
#else
constexpr size_t LEAST = size_t(1) << LOWEST;
#endif
constexpr int CLASSES = (47 - LOWEST) * 8;
constexpr size_t HUGE_PAGE = 1 << 21;
// The limit in bytes of all kept blocks. Kept blocks and blocks in use together never exceed the
// previous peak of blocks in use, or LEAST_PEAK. So keeping blocks does not raise a program's peak
// memory.
constexpr size_t MOST_KEPT = 256 << 20, LEAST_PEAK = 32 << 20;

// The header at the beginning of a kept block.
struct Kept {
  Kept *newer, *older;  // list of all kept blocks
  Kept *above, *below;  // list of the class; above was kept later
  int of;
};

Kept *newest, *oldest, *top[CLASSES];
size_t in_use, kept, peak = LEAST_PEAK;

int class_of(size_t nbytes) {
  if (nbytes <= LEAST) return 0;
  const int log = 63 - __builtin_clzll(nbytes - 1);
  return (log - LOWEST) * 8 + int((nbytes - 1) >> (log - 3)) - 7;
}

size_t size_of(int of) { return size_t(8 + of % 8) << (LOWEST - 3 + of / 8); }

void drop_from_lists(Kept* block) {
  (block->newer ? block->newer->older : newest) = block->older;
  (block->older ? block->older->newer : oldest) = block->newer;
  (block->above ? block->above->below : top[block->of]) = block->below;
  if (block->below) block->below->above = block->above;
  kept -= size_of(block->of);
}

// Return the oldest kept blocks to the system, until `most` bytes are left.
void return_all_but(size_t most) {
  while (kept > most) {
    Kept* block = oldest;
    const size_t size = size_of(block->of);
    drop_from_lists(block);
    munmap(block, size);
  }
}

// Allocate memory. If it has at least two huge pages, it begins at one, so that Linux may use huge
// pages, which are faster to clear.
void* map(size_t size) {
  const bool is_huge = size >= 2 * HUGE_PAGE;
  const size_t more = is_huge ? HUGE_PAGE : 0;
  char* found = (char*)mmap(nullptr, size + more, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  if (!is_huge) return found;
  const size_t before = -(size_t)found % HUGE_PAGE;
  if (before) munmap(found, before);
  if (more - before) munmap(found + before + size, more - before);
  madvise(found + before, size, MADV_HUGEPAGE);
  return found + before;
}

void* take(int of) {
  const size_t size = size_of(of);
  Kept* block = top[of];
  void* found = block;
  if (block) {
    drop_from_lists(block);
  } else {
    const size_t used = in_use + size;
    return_all_but(used < peak ? peak - used : 0);
    found = map(size);
    if (!found && kept) {
      return_all_but(0);
      found = map(size);
    }
    if (!found) return nullptr;
  }
  in_use += size;
  if (in_use > peak) peak = in_use;
  return found;
}

void give_back(void* memory, int of) {
  const size_t size = size_of(of);
  in_use -= size;
  if (size > MOST_KEPT) {
    munmap(memory, size);
    return;
  }
  Kept* block = (Kept*)memory;
  *block = {nullptr, newest, nullptr, top[of], of};
  (newest ? newest->newer : oldest) = block;
  newest = block;
  if (top[of]) top[of]->above = block;
  top[of] = block;
  kept += size;
  return_all_but(MOST_KEPT);
}

void forget_block(PyObject* capsule) {
  give_back(PyCapsule_GetPointer(capsule, nullptr), (int)(intptr_t)PyCapsule_GetContext(capsule));
}

size_t bytes_of(PyArray_Descr* of, int ndim, const npy_intp* shape) {
  size_t nbytes = PyDataType_ELSIZE(of);
  for (int d = 0; d < ndim; d++)
    if (shape[d] < 0 || __builtin_mul_overflow(nbytes, (size_t)shape[d], &nbytes)) return -1;
  return nbytes;
}

// (bytes) -> a uint8 array
PyObject* allocate(PyObject*, PyObject* given) {
  npy_intp nbytes = PyLong_AsSsize_t(given);
  if (nbytes == -1 && PyErr_Occurred()) return nullptr;
  return (PyObject*)new_array(PyArray_DescrFromType(NPY_UINT8), 1, &nbytes, nullptr);
}

// (sizes, dtype) -> a row-major array
PyObject* empty(PyObject*, PyObject* args) {
  PyObject *sizes, *of;
  npy_intp shape[NPY_MAXDIMS];
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &sizes, &PyArrayDescr_Type, &of))
    return nullptr;
  const Py_ssize_t ndim = PyTuple_Size(sizes);
  if (ndim > NPY_MAXDIMS) {
    PyErr_SetString(PyExc_ValueError, "empty: too many dimensions");
    return nullptr;
  }
  for (Py_ssize_t d = 0; d < ndim; d++) {
    shape[d] = PyLong_AsSsize_t(PyTuple_GetItem(sizes, d));
    if (shape[d] == -1 && PyErr_Occurred()) return nullptr;
  }
  Py_INCREF(of);
  return (PyObject*)new_array((PyArray_Descr*)of, (int)ndim, shape, nullptr);
}

// (array) -> the address of its first element
PyObject* address_of(PyObject*, PyObject* given) {
  if (!PyArray_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "address_of: takes an array");
    return nullptr;
  }
  return PyLong_FromVoidPtr(PyArray_DATA((PyArrayObject*)given));
}

PyObject* memory_in_use(PyObject*, PyObject*) {
  return Py_BuildValue("nn", (Py_ssize_t)in_use, (Py_ssize_t)kept);
}

PyObject* empty_cache(PyObject*, PyObject*) {
  return_all_but(0);
  Py_RETURN_NONE;
}

}  // namespace

PyArrayObject* new_array(PyArray_Descr* of, int ndim, const npy_intp* shape,
                         const npy_intp* strides) {
  const size_t nbytes = bytes_of(of, ndim, shape);
  void* memory = nullptr;
  PyObject* owner = nullptr;
  if (nbytes >= LEAST && nbytes <= size_of(CLASSES - 1)) {
    const int number = class_of(nbytes);
    memory = take(number);
    if (memory && !(owner = PyCapsule_New(memory, nullptr, forget_block)))
      give_back(memory, number);
    if (!owner) {
      Py_DECREF((PyObject*)of);
      return (PyArrayObject*)PyErr_NoMemory();
    }
    PyCapsule_SetContext(owner, (void*)(intptr_t)number);
  }
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, of, ndim, shape, strides, memory,
                                         memory ? NPY_ARRAY_CARRAY : 0, nullptr);
  if (!owner) return (PyArrayObject*)array;
  if (!array) {
    Py_DECREF(owner);
  // the array takes over `owner`
  } else if (PyArray_SetBaseObject((PyArrayObject*)array, owner) < 0) {
    Py_DECREF(array);
    array = nullptr;
  }
  return (PyArrayObject*)array;
}

PyMethodDef allocate_method = {"allocate", allocate, METH_O,
                               "(bytes) -> a uint8 array, not initialised."};
PyMethodDef empty_method = {"empty", empty, METH_VARARGS,
                            "(sizes, dtype) -> a row-major array, not initialised."};
PyMethodDef address_of_method = {"address_of", address_of, METH_O,
                                 "(array) -> the address of its first element."};
PyMethodDef memory_in_use_method = {"memory_in_use", memory_in_use, METH_NOARGS,
                                    "(bytes of the blocks in use, bytes of the kept blocks)."};
PyMethodDef empty_cache_method = {"empty_cache", empty_cache, METH_NOARGS,
                                  "Return the kept blocks to the system."};

}  // namespace engine
