// Steps of a chain as instructions of the machine: see chain.h and machine.h.
//
// The instructions have the order of the steps. A value stays in the accumulator for the next step.
// It is also written to memory if another step reads it or the program stores it.
#include <string.h>

#include "chain.h"

namespace engine {

using abi::FIRST;
using abi::Instruction;
using abi::NOTHING;
using abi::SECOND;
using abi::TWICE;

namespace {

// inputs: -1 for any number.
const abi::InstructionEntry* entry_of(const char* family, const char* name, int dtype, int held,
                                      int inputs = -1) {
  const abi::Machine& machine = *capability->machine;
  for (int k = 0; k < machine.n_entries; k++) {
    const abi::InstructionEntry& entry = machine.entries[k];
    if (entry.dtype == dtype && entry.held == held && !strcmp(entry.name, name) &&
        !strcmp(entry.family, family) && (inputs < 0 || entry.inputs == inputs))
      return &entry;
  }
  return nullptr;
}

// The instruction that runs a step's loop over a tile.
const abi::InstructionEntry* call_of(const Said& said) {
  const abi::LoopEntry& loop = *said.entry;
  for (int j = 0; j < loop.inputs; j++)
    if (loop.input[j] != said.common) return nullptr;
  return loop.result == said.common ? entry_of("", "call", said.common, NOTHING, loop.inputs)
                                    : nullptr;
}

// The form of an instruction if its place is a number; otherwise the form itself.
int with_number(const Said& said, int way) {
  if (said.n_operands != 2) return way;
  const bool is_first = said.operand[0] < 0, is_second = said.operand[1] < 0;
  if (way == FIRST && is_second) return abi::FIRST_AND_ONE;
  if (way == SECOND && is_first) return abi::SECOND_AND_ONE;
  if (way == NOTHING && is_first != is_second)
    return is_first ? abi::ONE_AND_PLACE : abi::PLACE_AND_ONE;
  return way;
}

bool is_call(const abi::InstructionEntry* way) { return way && !strcmp(way->name, "call"); }

bool is_truth(const Said& said) { return !said.reduces && said.entry->result == abi::b8; }
bool asks_truth(const Said& said) { return !said.reduces && said.entry->input[0] == abi::b8; }

int count_of(const Said& said, int value) {
  int found = 0;
  for (int j = 0; j < said.n_operands; j++) found += said.operand[j] == value;
  return found;
}

}  // namespace

void find_ways(Said* said, const char* family) {
  for (int held = 0; held < abi::N_HELD; held++)
    said->way[held] =
        said->n_params ? nullptr : entry_of(family, said->entry->name, said->common, held);
  if (!said->way[FIRST]) said->way[NOTHING] = call_of(*said);
}

void find_reduction(Said* said, const char* name) {
  const abi::InstructionEntry* entry = entry_of("reduce", name, said->common, FIRST);
  said->reduces = entry && said->n_operands == 1 && said->out == said->common;
  for (const auto*& way : said->way) way = nullptr;
  said->way[FIRST] = entry;
}

// Whether the step can be in a run from `first` on: it reads no result of a reduction in this run,
// which is known only at the end of the row.
bool Registers::may_join(int step, int first) const {
  const Said& said = said_[step];
  for (int j = 0; j < said.n_operands; j++) {
    const int made = said.operand[j] - n_inputs_;
    if (made >= first && made < step && said_[made].reduces) return false;
  }
  return said.common == said_[first].common;
}

// Whether the machine can compute the step's operands and result. A bool must be used only within
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
  return condition >= 0 && run_[condition] == run_[step];
}

void Registers::find(const Said* said, int n_steps, int n_inputs, const int* dtype,
                     const bool* is_stored) {
  said_ = said, n_steps_ = n_steps, n_inputs_ = n_inputs;
  bool may[MOST_STEPS];
  for (int s = 0; s < n_steps; s++) {
    const Said& now = said[s];
    may[s] = now.reduces || (now.entry && !now.is_row && (now.way[FIRST] || now.way[NOTHING]) &&
                             now.out == now.entry->result);
    for (int j = 0; may[s] && j < now.n_operands; j++) {
      const int v = now.operand[j], wanted = now.reduces ? now.common : now.entry->input[j];
      may[s] = v < 0 ? wanted == now.common && !now.reduces : dtype[v] == wanted;
    }
  }
  for (bool is_done = false; !is_done;) {
    for (int first = 0, last; first < n_steps; first = last) {
      for (last = first + 1; may[first] && last < n_steps && may[last]; last++)
        if (!may_join(last, first)) break;
      for (int s = first; s < last; s++) run_[s] = last - first > 1 ? first : -1;
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

// The value in the accumulator when a step of a run begins; -1: none. Reductions leave it as it is.
int Registers::held_before(int step) const {
  if (step == run_[step]) return -1;
  const Said& last = said_[step - 1];
  return last.reduces ? last.operand[0] : n_inputs_ + step - 1;
}

// Whether the step can read its operand from the accumulator each time that it reads it.
bool Registers::reads_in_registers(int step, int value) const {
  const Said& said = said_[step];
  const int n = count_of(said, value);
  if (n == 1 && said.operand[0] == value) return said.way[FIRST] != nullptr;
  if (n == 1) return said.operand[1] == value && said.way[SECOND];
  return n == 2 && said.n_operands == 2 && said.way[TWICE];
}

// Whether the step's result has to be in memory.
bool Registers::is_kept(int step) const {
  const int value = n_inputs_ + step;
  if (!is_local_[value]) return true;
  for (int s = step + 1; s < n_steps_; s++)
    if (count_of(said_[s], value) &&
        (run_[s] != run_[step] || held_before(s) != value || !reads_in_registers(s, value)))
      return true;
  return false;
}

int Registers::translate(int first, const int* slot, const int (*number)[MOST_INPUTS],
                         const int* first_scalar, const int* state, Instruction* to) const {
  const int last = first + begins(first), dtype = said_[first].common;
  Instruction* at = to;
  const auto put = [&](const abi::InstructionEntry* entry) {
    *at = {entry->go, nullptr, {}, 0};
    return at++;
  };
  for (int s = first; s < last; s++) {
    const Said& now = said_[s];
    const auto place_of = [&](int j) {
      return now.operand[j] < 0 ? number[s][j] : slot[now.operand[j]];
    };
    const int held = held_before(s);
    int way = NOTHING, skipped = -1;
    const bool is_square = now.n_operands == 2 && now.operand[0] == now.operand[1];
    if (held >= 0 && reads_in_registers(s, held)) {
      skipped = now.operand[0] == held ? 0 : 1;
      way = count_of(now, held) == 2 ? TWICE : skipped ? SECOND : FIRST;
    } else if (is_square && now.way[abi::PLACE_TWICE]) {
      way = abi::PLACE_TWICE, skipped = 1;
    } else if (!now.way[NOTHING]) {
      put(entry_of("", "load", dtype, NOTHING))->place[0] = (short)place_of(0);
      way = FIRST, skipped = 0;
    }
    const int by_one = with_number(now, way);
    if (now.way[by_one]) way = by_one;
    Instruction* made = put(now.way[way]);
    int n = 0;
    if (is_call(now.way[way])) {
      made->loop = now.entry->loop, made->first_scalar = (short)first_scalar[s];
      made->place[n++] = (short)slot[n_inputs_ + s];
    }
    if (now.reduces) made->place[n++] = (short)state[s];
    for (int j = 0; way != TWICE && j < now.n_operands; j++)
      if (j != skipped) made->place[n++] = (short)place_of(j);
    if (!made->loop && !now.reduces && is_kept(s))
      put(entry_of("", "store", dtype, FIRST))->place[0] = (short)slot[n_inputs_ + s];
  }
  put(entry_of("", "end", dtype, FIRST));
  return int(at - to);
}

}  // namespace engine
