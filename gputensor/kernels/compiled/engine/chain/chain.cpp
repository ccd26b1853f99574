// Chains of operators as one program. gputensor/fusion runs these on the CPU.
//
// Built from steps in SSA form. Values are numbered: first the inputs, then the result of each
// step. A negative operand is a number; -1 is the first. Each value is rounded to its dtype, so a
// program produces the same bits as its operators run one by one.
#include <string.h>

#include "with_casts.h"

namespace engine {
namespace {

using abi::Scalar;

// Rows up to this length are processed several at a time. In longer rows, reductions of computed
// values are computed in registers, which is a step for each row.
constexpr i64 SHORT_ROW = 2000;
// The limit in bytes of a row's temporaries, which are on a thread's stack.
constexpr i64 MOST_OF_ROW = 1 << 20;

bool read_ints(PyObject* given, int most, int* to, int* n) {
  if (!PyTuple_Check(given) || PyTuple_Size(given) > most) return false;
  *n = (int)PyTuple_Size(given);
  for (int k = 0; k < *n; k++) to[k] = (int)PyLong_AsLong(PyTuple_GetItem(given, k));
  return !PyErr_Occurred();
}

abi::Function function_of(const char* family, const char* name) {
  const abi::Family* found = family_of(family);
  for (int k = 0; found && k < found->n_functions; k++)
    if (!strcmp(found->functions[k].name, name)) return found->functions[k].function;
  return nullptr;
}

bool read_call(const char* family, const char* name, PyObject* arrays, PyObject* integers,
               PyObject* numbers, RowCall* to) {
  int place[abi::MOST_OPERANDS], integer[2];
  if (!read_ints(arrays, abi::MOST_OPERANDS, place, &to->n_arrays) ||
      !read_ints(integers, 2, integer, &to->n_ints) || PyTuple_Size(numbers) > 2)
    return false;
  for (int k = 0; k < to->n_arrays; k++) to->slot[k] = (short)place[k];
  for (int k = 0; k < to->n_ints; k++) to->integer[k] = integer[k];
  to->n_floats = (int)PyTuple_Size(numbers);
  for (int k = 0; k < to->n_floats; k++)
    to->real[k] = PyFloat_AsDouble(PyTuple_GetItem(numbers, k));
  return (to->function = function_of(family, name));
}

// Read (family, op, common, out, operands, params), or for rows (…, is_row, arrays, integers,
// numbers). Returns false if there is no loop for it. arrays: the arguments of a function, () for a
// loop. Each is the index of an operand, -1 for the result, -2 - dtype for a result of each row
// that is not read, NONE, or a further result. Family "part": a further result of the operand's
// function.
bool read_step(PyObject* given, Said* to) {
  const char *family, *op;
  PyObject *operands, *params, *arrays = nullptr, *integers, *numbers;
  int is_row = 0;
  if (!PyTuple_Check(given) ||
      !PyArg_ParseTuple(given, "ssiiOO|iOOO", &family, &op, &to->common, &to->out, &operands,
                        &params, &is_row, &arrays, &integers, &numbers))
    return false;
  to->is_row = is_row, to->call = {}, to->is_part = !strcmp(family, "part");
  to->reduces = to->spreads = to->by_rows = false;
  if (!read_ints(operands, MOST_INPUTS, to->operand, &to->n_operands) ||
      !read_ints(params, abi::MOST_SCALARS, to->param, &to->n_params))
    return false;
  to->entry = nullptr, to->rounds = false;
  if (to->is_part) return to->n_operands == 1 && !to->n_params;
  if (arrays && PyTuple_Size(arrays)) {
    if (!strcmp(family, "reduce")) find_reduction(to, op);
    return read_call(family, op, arrays, integers, numbers, &to->call) &&
           to->call.n_floats + to->n_params <= MOST_REALS;
  }
  if (!strcmp(family, "copy")) return to->n_operands == 1 && !to->n_params;
  const abi::Family* found = family_of(family);
  to->entry = loop_of(found, op, to->common);
  // calls that this chain declines have no other loop
  if (to->entry && to->entry->takes) return false;
  if (!to->entry || to->entry->inputs != to->n_operands || to->entry->scalars != to->n_params)
    return false;
  to->rounds = found->rounds_numbers;
  find_instruction(to, family);
  return true;
}

// Slots of temporaries. After the last step that reads a slot, the slot is reused for a value of
// the same dtype and size.
struct Slots {
  Program& program;
  int free[MOST_SLOTS], n_free = 0;

  int take(int dtype, bool is_local = false, bool is_row = false) {
    for (int k = 0; k < n_free; k++) {
      const int slot = free[k];
      if (program.dtype[slot] != dtype || program.is_local[slot] != is_local ||
          program.is_row[slot] != is_row)
        continue;
      free[k] = free[--n_free];
      return slot;
    }
    if (program.n_slots == MOST_SLOTS) return -1;
    program.itemsize[program.n_slots] = (byte)ITEMSIZE[dtype];
    program.dtype[program.n_slots] = (byte)dtype;
    program.is_local[program.n_slots] = is_local, program.is_row[program.n_slots] = is_row;
    return program.n_slots++;
  }
  int take_state() {
    if (program.n_slots == MOST_SLOTS) return -1;
    program.is_local[program.n_slots] = program.is_state[program.n_slots] = true;
    return program.n_slots++;
  }
  void give(int slot) { free[n_free++] = slot; }
};

// Returns false if the program would be too long or have too many temporaries.
bool build(Chain& chain, const int* inputs, int n_inputs, const int* outputs, int n_outputs,
           const Said* said, int n_steps) {
  Program& program = chain.program;
  program.capability = capability;
  program.n_outputs = n_outputs, program.n_operands = n_outputs + n_inputs;
  int dtype[MOST_VALUES], last_read[MOST_VALUES] = {}, slot[MOST_VALUES], place[MOST_VALUES];
  int number[MOST_STEPS][MOST_INPUTS];
  int state[MOST_STEPS];
  bool is_stored[MOST_VALUES] = {};
  for (int v = 0; v < n_inputs + n_steps; v++) {
    dtype[v] = v < n_inputs ? inputs[v] : said[v - n_inputs].out;
    place[v] = -1;
  }
  for (int k = 0; k < n_outputs; k++) {
    if (outputs[k] < n_inputs) return false;  // the source and the result have the same dtype
    place[outputs[k]] = k, is_stored[outputs[k]] = true;
    program.itemsize[k] = (byte)ITEMSIZE[chain.dtype[k] = dtype[outputs[k]]];
    program.dtype[k] = (byte)chain.dtype[k];
    program.is_row[k] = said[outputs[k] - n_inputs].is_row;
  }
  for (int v = 0; v < n_inputs; v++) {
    const int k = slot[v] = n_outputs + v;
    program.itemsize[k] = (byte)ITEMSIZE[chain.dtype[k] = inputs[v]];
    program.dtype[k] = (byte)inputs[v];
  }
  for (int s = 0; s < n_steps; s++) {
    for (int j = 0; j < said[s].n_operands; j++) {
      const int v = said[s].operand[j];
      if (v >= 0) {
        last_read[v] = s;
      } else if (!said[s].entry || said[s].entry->input[j] != said[s].common ||
                 program.n_numbers == MOST_NUMBERS) {
        return false;
      } else {
        number[s][j] = program.n_operands + program.n_numbers;
        program.dtype[number[s][j]] = (byte)said[s].common;
        chain.number[program.n_numbers++] = {-1 - v, said[s].common, said[s].rounds};
      }
    }
  }
  program.n_slots = program.n_operands + program.n_numbers;
  if (program.n_slots > MOST_SLOTS) return false;
  for (int k = program.n_operands; k < program.n_slots; k++)
    program.itemsize[k] = sizeof(Scalar), program.is_wide[k] = true;
  Slots slots = {program};
  Registers registers;
  registers.find(said, n_steps, n_inputs, dtype, is_stored);
  const auto begin = [&](int to) -> Step* {
    if (to < 0 || program.n_steps == MOST_STEPS) return nullptr;
    Step* step = &program.step[program.n_steps++];
    *step = {};
    step->slot[0] = (byte)to, step->n_slots = 1;
    return step;
  };
  int scratch[abi::MOST_OPERANDS], n_scratch = 0;
  program.call = chain.call;
  const auto slot_of = [&](int v) {
    const Said& made = said[v - n_inputs];
    return place[v] >= 0 ? place[v]
                         : slots.take(made.out, registers.is_local(v), made.is_row);
  };
  for (int s = 0; s < n_steps; s++) {
    const Said& now = said[s];
    const int value = n_inputs + s;
    if (!now.is_part) slot[value] = slot_of(value);
    if (now.is_part) {
      if (now.operand[0] < n_inputs || !said[now.operand[0] - n_inputs].call.function) return false;
    } else if (now.reduces && registers.runs(s)) {
      Step* step = begin(slot[value]);
      state[s] = slots.take_state();
      if (!step || state[s] < 0) return false;
      step->reduction = &now.by->reduction;
      step->slot[1] = (byte)slot[now.operand[0]], step->slot[2] = (byte)state[s];
      step->in_registers = (byte)registers.begins(s), step->code = (short)s;
      step->item = (byte)ITEMSIZE[now.common];
    } else if (now.call.function) {
      RowCall& call = chain.call[s] = now.call;
      Step* step = begin(slot[value]);
      if (!step) return false;
      step->call = (byte)(s + 1);
      call.n_params = now.n_params, call.first_scalar = chain.n_scalars;
      for (int j = 0; j < now.n_params; j++) {
        if (chain.n_scalars == MOST_NUMBERS) return false;
        chain.scalar[chain.n_scalars++] = {-1 - now.param[j], abi::f64, false};
      }
      for (int j = 0; j < call.n_arrays; j++) {
        const int which = call.slot[j], further = which - OF_VALUE;
        if (which == NONE) {
          call.slot[j] = -1;
          continue;
        }
        const bool is_further = further > value && further < n_inputs + n_steps;
        if (is_further ? !said[further - n_inputs].is_part : which >= now.n_operands) return false;
        if (is_further) slot[further] = slot_of(further);
        const int of = is_further   ? slot[further]
                       : which >= 0 ? slot[now.operand[which]]
                       : which < -1 ? slots.take(-2 - which, false, true)
                                    : slot[value];
        if (of < 0) return false;
        call.slot[j] = (short)of;
        if (which < -1) scratch[n_scratch++] = of;
      }
      while (n_scratch) slots.give(scratch[--n_scratch]);
    } else {
      Step* step = begin(slot[value]);
      if (!step) return false;
      step->in_registers = (byte)registers.begins(s), step->code = (short)s;
      step->item = (byte)ITEMSIZE[registers.type_of(s)];
      for (int j = 0; j < now.n_operands; j++) {
        const int v = now.operand[j];
        step->slot[step->n_slots++] = (byte)(v < 0 ? number[s][j] : slot[v]);
      }
      if (now.entry)
        step->loop = now.entry->loop;
      else
        step->cast = capability->casts[dtype[now.operand[0]]][now.out];
      step->by_rows = now.by_rows;
      step->first_scalar = (byte)chain.n_scalars;
      for (int j = 0; j < now.n_params; j++) {
        if (chain.n_scalars == MOST_NUMBERS) return false;
        chain.scalar[chain.n_scalars++] = {-1 - now.param[j], now.common, false};
      }
    }
    for (int j = 0; j < now.n_operands; j++) {
      const int v = now.operand[j];
      bool is_given = v < n_inputs || place[v] >= 0 || last_read[v] != s;
      for (int i = 0; i < j; i++) is_given = is_given || now.operand[i] == v;
      if (!is_given) slots.give(slot[v]);
    }
    for (int k = 0; k < n_outputs; k++)
      for (int j = 0; outputs[k] < value && j < now.n_operands; j++)
        if (now.operand[j] >= 0 && now.operand[j] < n_inputs)
          chain.read_later[k] |= 1u << now.operand[j];
  }
  int n_code = 0;
  for (int k = 0; k < program.n_steps; k++) {
    Step& step = program.step[k];
    if (!step.in_registers) continue;
    const int first = step.code;
    step.code = (short)n_code;
    step.has_calls = registers.has_calls(first);
    program.has_calls = program.has_calls || step.has_calls;
    step.n_code = (short)registers.translate(first, slot, number, state, chain.code + n_code);
    n_code += step.n_code;
    program.code = chain.code;
  }
  i64 of_row = 0;
  for (int k = program.n_operands + program.n_numbers; k < program.n_slots; k++)
    if (!program.is_local[k] && !program.is_row[k]) of_row += program.row * program.itemsize[k];
  return of_row <= MOST_OF_ROW;
}

// Read the shapes of the arrays of a program by rows: (rows, elements of a row), either of which
// may be 1, or (elements,), which are divided into rows. In the second case, an output with one
// element per row has as many elements as there are rows.
bool read_shapes(PyObject* given, Chain* chain, int n_arrays) {
  if (!PyTuple_Check(given) || PyTuple_Size(given) != n_arrays) return false;
  chain->ndim = 0;
  for (int k = 0; k < n_arrays; k++) {
    PyObject* shape = PyTuple_GetItem(given, k);
    if (!PyTuple_Check(shape)) return false;
    const int ndim = (int)PyTuple_Size(shape);
    if (ndim < 1 || ndim > 2 || (chain->ndim && ndim != chain->ndim)) return false;
    chain->ndim = ndim;
    for (int d = 0; d < 2; d++)
      chain->shape[k][d] = d < ndim ? PyLong_AsLongLong(PyTuple_GetItem(shape, ndim - 1 - d)) : 1;
  }
  return !PyErr_Occurred();
}

// Set the sizes of a program by rows. is_row: true for each output with one value per row.
bool set_sizes(Chain* chain, const bool* is_row, int n_outputs, int n_arrays) {
  for (int d = 0; d < 2; d++) {
    i64& size = chain->size[d] = 1;
    for (int k = 0; k < n_arrays; k++) {
      const bool is_rows = k < n_outputs && is_row[k] && chain->ndim == 1;
      if (!is_rows && chain->shape[k][d] > size) size = chain->shape[k][d];
    }
  }
  const i64 row = chain->program.row, n_rows = (chain->size[0] + row - 1) / row;
  for (int k = 0; k < n_arrays; k++)
    for (int d = 0; d < 2; d++) {
      const bool is_first_of_row = k < n_outputs && is_row[k] && !d;
      const i64 wanted = !is_first_of_row ? chain->size[d] : chain->ndim == 1 ? n_rows : 1;
      const bool is_one = k >= n_outputs && chain->shape[k][d] == 1;
      if (chain->shape[k][d] != wanted && !is_one) return false;
    }
  return chain->ndim == 1 || chain->size[0] <= row;
}

// Read (function of family "reduce", divisor or 0, dtype of the output) for each reduction to one
// element, and None for each other output.
bool read_wholes(PyObject* given, Whole* to, int n_outputs) {
  if (!given || !PyTuple_Check(given) || PyTuple_Size(given) != n_outputs) return false;
  for (int k = 0; k < n_outputs; k++) {
    PyObject* one = PyTuple_GetItem(given, k);
    const char* name;
    if (one == Py_None) continue;
    if (!PyTuple_Check(one) || !PyArg_ParseTuple(one, "sdi", &name, &to[k].over, &to[k].dtype) ||
        !(to[k].merge = function_of("reduce", name)))
      return false;
  }
  return true;
}

void forget(PyObject* capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, nullptr)); }

// (dtypes of the inputs, stored values, steps, elements of a row, shapes of the outputs and inputs,
// reductions to one element) -> a program, or None
PyObject* make(PyObject*, PyObject* args) {
  PyObject *given, *stored, *steps, *shapes = nullptr, *wholes = nullptr;
  int inputs[MOST_ARRAYS], outputs[MOST_ARRAYS], n_inputs, n_outputs;
  long long row = 0;
  if (!PyArg_ParseTuple(args, "OOO!|LOO", &given, &stored, &PyTuple_Type, &steps, &row, &shapes,
                        &wholes))
    return nullptr;
  Said said[MOST_STEPS];
  const int n_steps = (int)PyTuple_Size(steps);
  bool is_one = capability && n_steps <= MOST_STEPS &&
                read_ints(given, MOST_ARRAYS, inputs, &n_inputs) &&
                read_ints(stored, MOST_ARRAYS, outputs, &n_outputs) && n_outputs &&
                n_inputs + n_outputs <= MOST_ARRAYS;
  for (int s = 0; is_one && s < n_steps; s++)
    is_one = read_step(PyTuple_GetItem(steps, s), &said[s]);
  if (PyErr_Occurred()) return nullptr;
  if (!is_one) Py_RETURN_NONE;
  Chain* chain = (Chain*)PyMem_Calloc(1, sizeof(Chain));
  if (!chain) return PyErr_NoMemory();
  const int n_arrays = n_outputs + n_inputs;
  bool is_row[MOST_ARRAYS] = {};  // of the outputs, then of the inputs
  for (int k = 0; is_one && k < n_outputs; k++) {
    is_one = outputs[k] >= n_inputs && outputs[k] < n_inputs + n_steps;
    is_row[k] = is_one && said[outputs[k] - n_inputs].is_row;
  }
  Program& program = chain->program;
  if ((program.row = row)) {
    is_one = is_one && read_shapes(shapes, chain, n_arrays) &&
             set_sizes(chain, is_row, n_outputs, n_arrays) &&
             read_wholes(wholes, chain->whole, n_outputs);
    program.has_groups = chain->ndim == 2 && chain->size[0] > 1 && chain->size[1] > 1 &&
                         row <= SHORT_ROW;
    for (int k = n_outputs; k < n_arrays; k++)
      is_row[k] = program.has_groups && chain->shape[k][0] == 1 && chain->shape[k][1] > 1;
    for (int s = 0; program.has_groups && s < n_steps; s++) said[s].reduces = false;
  }
  WithCasts all;
  is_one = is_one && all.read(said, n_steps, inputs, is_row + n_outputs, n_inputs,
                              program.has_groups, row < SHORT);
  for (int k = 0; is_one && k < n_outputs; k++) outputs[k] = all.value[outputs[k]];
  for (int k = 0; k < n_inputs; k++) program.is_row[n_outputs + k] = is_row[n_outputs + k];
  if (!is_one || !build(*chain, inputs, n_inputs, outputs, n_outputs, all.said, all.n_steps)) {
    PyMem_Free(chain);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* capsule = PyCapsule_New(chain, nullptr, forget);
  if (!capsule) {
    PyMem_Free(chain);
    return nullptr;
  }
  PyObject* made = PyCFunction_NewEx(&call_method, capsule, nullptr);
  Py_DECREF(capsule);
  return made;
}

}  // namespace

PyMethodDef program_method = {
    "program", make, METH_VARARGS, "(dtypes, stored values, steps) -> a program, or None."};

}  // namespace engine
