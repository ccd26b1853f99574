// Steps of a chain as instructions of the machine: see chain.h and machine.h.
//
// The instructions have the order of the steps. A result stays in its bank until another result
// needs the bank. A value that is read later is then written to memory. Loops without an
// instruction run over some tiles between the instructions before and after them.
#include <string.h>

#include "chain.h"

namespace engine {

using abi::BANK_A;
using abi::N_BANKS;
using abi::ONE;
using abi::PLACE;

namespace {

const abi::InstructionEntry* entry_of(const char* family, const char* name, int dtype) {
  const abi::Machine& machine = *capability->machine;
  for (int k = 0; k < machine.n_entries; k++) {
    const abi::InstructionEntry& entry = machine.entries[k];
    if (entry.dtype == dtype && !strcmp(entry.name, name) && !strcmp(entry.family, family))
      return &entry;
  }
  return nullptr;
}

bool is_float(int dtype) { return dtype == abi::f32 || dtype == abi::f64; }

// True if the step has no instruction. Its cast or loop then runs over some tiles.
bool is_call(const Said& said) {
  if (said.is_cast()) return true;
  if (said.by || said.reduces || !is_float(said.common)) return false;
  for (int j = 0; j < said.entry->inputs; j++)
    if (said.entry->input[j] != said.common) return false;
  return said.entry->result == said.common;
}

bool is_truth(const Said& said) { return said.entry && said.entry->result == abi::b8; }
bool asks_truth(const Said& said) { return said.entry && said.entry->input[0] == abi::b8; }

int count_of(const Said& said, int value) {
  int found = 0;
  for (int j = 0; j < said.n_operands; j++) found += said.operand[j] == value;
  return found;
}

}  // namespace

void find_instruction(Said* said, const char* family) {
  said->by = said->n_params ? nullptr : entry_of(family, said->entry->name, said->common);
}

void find_reduction(Said* said, const char* name) {
  said->by = entry_of("reduce", name, said->common);
  said->reduces = said->by && said->n_operands == 1 && said->out == said->common;
}

int Registers::type_of(int step) const {
  const Said& said = said_[step];
  return !said.is_cast() ? said.common : is_float(said.out) ? said.out : dtype_[said.operand[0]];
}

bool Registers::may_run(int step) const {
  const Said& said = said_[step];
  if (said.reduces) return dtype_[said.operand[0]] == said.common;
  if (said.is_row || said.is_part || said.spreads || said.by_rows || said.call.function)
    return false;
  if (!said.is_cast()) return said.by || is_call(said);
  const int type = type_of(step);
  return is_float(type) && (said.out == type || ITEMSIZE[said.out] <= ITEMSIZE[type]);
}

// True if the step can be in a run that begins at `first`: it does not read the result of a
// reduction in this run, which is known only at the end of the row.
bool Registers::may_join(int step, int first) const {
  const Said& said = said_[step];
  for (int j = 0; j < said.n_operands; j++) {
    const int made = said.operand[j] - n_inputs_;
    if (made >= first && made < step && said_[made].reduces) return false;
  }
  return type_of(step) == type_of(first);
}

// True if the machine can compute the step's operands and result. A bool must be used only within
// its run.
bool Registers::fits(int step) const {
  const Said& said = said_[step];
  const int made = n_inputs_ + step;
  if (is_truth(said)) {
    for (int s = step + 1; s < n_steps_; s++) {
      const int n = count_of(said_[s], made);
      if (n && (run_[s] != run_[step] || !asks_truth(said_[s]) || said_[s].operand[0] != made ||
                n > 1))
        return false;
    }
    return is_local_[made];
  }
  if (!asks_truth(said)) return true;
  const int condition = said.operand[0] - n_inputs_;
  return condition >= 0 && run_[condition] == run_[step] && is_truth(said_[condition]);
}

void Registers::find(const Said* said, int n_steps, int n_inputs, const int* dtype,
                     const bool* is_stored) {
  said_ = said, n_steps_ = n_steps, n_inputs_ = n_inputs, dtype_ = dtype;
  bool may[MOST_STEPS];
  for (int s = 0; s < n_steps; s++) may[s] = may_run(s);
  for (bool is_done = false; !is_done;) {
    for (int first = 0, last; first < n_steps; first = last) {
      for (last = first + 1; may[first] && last < n_steps && may[last]; last++)
        if (!may_join(last, first)) break;
      // A single reduction is faster as a function, which needs no instruction for each tile.
      const bool is_run = may[first] && last - first > 1;
      for (int s = first; s < last; s++) run_[s] = is_run ? first : -1;
    }
    for (int v = 0; v < n_inputs; v++) is_local_[v] = false;
    for (int s = 0; s < n_steps; s++)
      is_local_[n_inputs + s] = run_[s] >= 0 && !said[s].reduces;
    for (int v = n_inputs; v < n_inputs + n_steps; v++)
      is_local_[v] = is_local_[v] && !is_stored[v];
    for (int s = 0; s < n_steps; s++)
      for (int j = 0; j < said[s].n_operands; j++) {
        const int made = said[s].operand[j] - n_inputs;
        if (made >= 0 && run_[made] != run_[s]) is_local_[n_inputs + made] = false;
      }
    is_done = true;
    for (int s = 0; s < n_steps; s++) {
      if (run_[s] < 0 || fits(s)) continue;
      may[s] = is_done = false;
    }
  }
}

int Registers::begins(int step) const {
  if (run_[step] != step) return 0;
  int last = step + 1;
  while (last < n_steps_ && run_[last] == step) last++;
  return last - step;
}

bool Registers::has_calls(int first) const {
  for (int s = first; s < first + begins(first); s++)
    if (is_call(said_[s])) return true;
  return false;
}

namespace {

// Write the instructions of one run. held: the value in each bank, or -1.
struct Writer {
  const Said* said;
  int n_inputs, first, last, n_steps, dtype;
  const int* slot;
  const int (*number)[MOST_INPUTS];
  const int* state;
  bool has_calls;
  Coded* at;
  int held[N_BANKS] = {-1, -1};
  bool is_in_memory[MOST_VALUES] = {};

  // The first step from `step` on that reads a value in this run; `last` if there is none.
  int next_read(int value, int step) const {
    while (value >= 0 && step < last && !count_of(said[step], value)) step++;
    return value < 0 ? last : step;
  }
  int bank_of(int value) const {
    for (int bank = 0; bank < N_BANKS; bank++)
      if (value >= 0 && held[bank] == value) return bank;
    return PLACE;
  }
  Coded& put(void (*go)()) {
    *at = {go, nullptr, {-1, -1, -1}, -1, 0};
    return *at++;
  }
  Coded& put(const char* name, int bank, int value) {
    const abi::Forms& forms = *entry_of("", name, dtype)->forms;
    const bool is_load = !strcmp(name, "load");
    Coded& made = put(is_load ? forms[bank][PLACE][0] : forms[0][bank][0]);
    made.place[0] = (short)slot[value];
    return made;
  }
  void end() {
    if (at[-1].go) put((*entry_of("", "end", dtype)->forms)[0][0][0]);
  }

  // Write a bank's value to memory if a step from `step` on reads it.
  void keep(int bank, int step) {
    const int value = held[bank];
    if (next_read(value, step) == last || is_in_memory[value]) return;
    put("store", bank, value);
    is_in_memory[value] = true;
  }
  void keep_operand(int value, int step) {
    if (bank_of(value) != PLACE) keep(bank_of(value), step);
  }

  // Choose the bank for the result of a step. Its present value is one that is no longer read, that
  // is also in memory, or that is read last.
  int bank_for(int step) const {
    int best = 0, most = -1;
    for (int bank = 0; bank < N_BANKS; bank++) {
      const int value = held[bank], next = next_read(value, step + 1);
      const int worth = next == last ? 3 * last : is_in_memory[value] ? last + next : next;
      if (worth > most) best = bank, most = worth;
    }
    return best;
  }

  // Load the condition of a "where" into a bank, and return the bank.
  int bank_of_condition(int step) {
    const int condition = said[step].operand[0], found = bank_of(condition);
    if (found != PLACE) return found;
    int to = bank_for(step);
    if (count_of(said[step], held[to]) && !count_of(said[step], held[1 - to])) to = 1 - to;
    keep(to, step);
    put("load", to, condition);
    held[to] = condition;
    return to;
  }

  int source_of(int step, int j, bool may_be_one) const {
    const int value = said[step].operand[j];
    return value < 0 ? (may_be_one ? ONE : PLACE) : bank_of(value);
  }

  void call(int step) {
    for (int bank = 0; bank < N_BANKS; bank++) keep(bank, step), held[bank] = -1;
    if (step > first) end();
    *at++ = {nullptr, nullptr, {-1, -1, -1}, (short)(step - first), 0};
    is_in_memory[n_inputs + step] = true;
  }

  void write(int step, bool is_local) {
    const Said& now = said[step];
    const int value = n_inputs + step;
    // Between calls, a function reduces a value in memory faster than an instruction.
    const bool is_in_place = now.reduces && bank_of(now.operand[0]) == PLACE;
    if (is_call(now) || (has_calls && is_in_place)) return call(step);
    const bool is_where = now.n_operands == 3 && asks_truth(now);
    const int to = now.reduces ? 0 : is_where ? bank_of_condition(step) : bank_for(step);
    for (int j = 1; !is_where && now.n_operands == 3 && j < 3; j++)
      keep_operand(now.operand[j], step);
    if (!now.reduces) keep(to, step + 1);
    const int a = is_where, b = a + 1;
    const int source = source_of(step, a, now.n_operands > 1 && (is_where || now.n_operands < 3));
    const int second = b < now.n_operands && (is_where || now.n_operands == 2)
                           ? source_of(step, b, true) : 0;
    Coded& made = put((*now.by->forms)[to][source][second]);
    for (int j = 0; j < now.n_operands; j++)
      made.place[j] = (short)(now.operand[j] < 0 ? number[step][j] : slot[now.operand[j]]);
    if (now.reduces) {
      made.place[1] = (short)state[step];
      return;
    }
    held[to] = value;
    if (is_local) return;
    Coded& stored = put("store", to, value);
    is_in_memory[value] = true;
    for (int s = step + 1; s < n_steps; s++)
      if (count_of(said[s], value)) return;
    stored.stream = (*entry_of("", "stream", dtype)->forms)[0][to][0];
  }
};

}  // namespace

int Registers::translate(int first, const int* slot, const int (*number)[MOST_INPUTS],
                         const int* state, Coded* to) const {
  const int last = first + begins(first);
  Writer writer = {said_, n_inputs_, first, last, n_steps_, type_of(first), slot, number, state,
                   has_calls(first), to};
  for (int v = 0; v < n_inputs_ + first; v++) writer.is_in_memory[v] = true;
  for (int s = first; s < last; s++) writer.write(s, is_local_[n_inputs_ + s]);
  writer.end();
  const int n = int(writer.at - to);
  for (int k = n - 1, next = n; k >= 0; k--) {
    const bool ends = !to[k].go || k == n - 1 || !to[k + 1].go;
    to[k].next = (short)(next = ends ? k + 1 : next);
  }
  return n;
}

}  // namespace engine
