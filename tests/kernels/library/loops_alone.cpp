// Runs a capability's loops without Python, and writes what they give, for test_neon.py: a machine
// that is emulated has no Python. The same text is built for two machines; what it draws depends on
// nothing else, so their outputs can be compared.
//
// A record: a line "family name count dtype", where dtype is a code of core/dtype.py, and the
// elements. Elements beyond an output must stay as they were, else the exit status is 1.
#include "engine/program.h"
#include "engine/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

namespace CAPABILITY {
extern const abi::Capability capability;
}

namespace {

using namespace abi;
const Capability& here = CAPABILITY::capability;

const int ITEMSIZE[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 4};
const char* SHORT[] = {"bool", "u8",  "i8",   "u16", "i16", "u32", "i32",  "u64",
                       "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "c32"};
const double SPECIAL[] = {0, -0.0, 1, -1, 0.5, 1e-40, 200, INFINITY, -INFINITY, NAN};
constexpr byte GUARD = 0xA5;
constexpr i64 GUARDED = 64;

bool is_floating(int dtype) { return dtype >= f16; }

u64 state = 1;
u64 draw() {  // Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014
  u64 z = state += 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}
double number() { return (double)(draw() >> 11) * 0x1p-53 * 8 - 4; }

// Memory of an operand, with a guard behind it.
struct Memory {
  i64 count;
  int dtype;
  char* data;
  Memory(i64 count, int dtype) : count(count), dtype(dtype) {
    data = (char*)aligned_alloc(64, (bytes() + GUARDED + 127) & ~63ll);
    memset(data, 0, bytes());
    memset(data + bytes(), GUARD, GUARDED);
  }
  ~Memory() { free(data); }
  i64 bytes() const { return count * ITEMSIZE[dtype]; }

  // Numbers from -4 to 4, a tenth of them special where `any`; integers of any bits, then.
  Memory& drawn(bool any) {
    for (i64 i = 0; i < count; i++) {
      char* at = data + i * ITEMSIZE[dtype];
      double both[2] = {number(), number()};
      const u64 bits = draw();
      if (any && bits % 10 == 0) both[0] = SPECIAL[bits / 10 % 10];
      if (any && !is_floating(dtype) && dtype != b8) {
        memcpy(at, &bits, ITEMSIZE[dtype]);
      } else {
        here.casts[dtype >= c64 ? c128 : f64][dtype](at, (const char*)both, 1);
      }
    }
    return *this;
  }
  // Finite, positive and at most 4, as divisors, exponents and deviations are.
  Memory& positive() {
    for (i64 i = 0; i < count; i++) {
      const double x = number() / 2 + 2.5;
      here.casts[f64][dtype](data + i * ITEMSIZE[dtype], (const char*)&x, 1);
    }
    return *this;
  }
  // Of all sizes up to 2^80: what no integer holds, too.
  Memory& wide() {
    for (i64 i = 0; i < count; i++) {
      const int exponent = (int)(draw() % 100) - 20;
      const double both[2] = {ldexp(number(), exponent), number()};
      here.casts[dtype >= c64 ? c128 : f64][dtype](data + i * ITEMSIZE[dtype], (const char*)both,
                                                   1);
    }
    return *this;
  }
  void write(const char* family, const char* name) const {
    for (i64 k = 0; k < GUARDED; k++)
      if ((byte)data[bytes() + k] != GUARD) {
        fprintf(stderr, "%s %s wrote beyond its output\n", family, name);
        exit(1);
      }
    printf("%s %s %lld %d\n", family, name, count, dtype);
    fwrite(data, 1, bytes(), stdout);
  }
};

// --- loops over elements ------------------------------------------------------------------------

Scalar scalar_of(int dtype) {
  Scalar made = {};
  const double wide[2] = {1.25, 0};
  const float narrow[2] = {1.25f, 0};
  const i64 whole = 3;
  if (dtype == f64 || dtype == c128) memcpy(&made, wide, 16);
  else if (is_floating(dtype)) memcpy(&made, narrow, 8);
  else memcpy(&made, &whole, 8);
  return made;
}

// ones: bit k is set where input k is one value.
void run_loop(const char* family, const LoopEntry& entry, i64 n, int ones) {
  Memory out(n, entry.result), *in[5];
  char* data[6] = {out.data};
  i64 step[6] = {ITEMSIZE[entry.result]};
  Scalar scalars[MOST_SCALARS], one[5];
  for (int k = 0; k < entry.scalars; k++) scalars[k] = scalar_of(entry.common);
  for (int k = 0; k < entry.inputs; k++) {
    in[k] = new Memory(n, entry.input[k]);
    in[k]->drawn(true);
    data[k + 1] = in[k]->data, step[k + 1] = ITEMSIZE[entry.input[k]];
    if (ones >> k & 1) {
      here.widen[entry.input[k]]((char*)&one[k], in[k]->data, 1);
      data[k + 1] = (char*)&one[k], step[k + 1] = 0;
    }
  }
  entry.loop(data, step, n, scalars);
  for (int k = 0; k < entry.inputs; k++) delete in[k];
  out.write(family, entry.name);
}

void run_casts() {
  for (int from = 0; from < N_DTYPES; from++)
    for (int to = 0; to < N_DTYPES; to++) {
      if (!here.casts[from][to]) continue;
      Memory x(131, from), out(131, to);
      here.casts[from][to](out.data, x.drawn(true).data, 131);
      out.write("cast", SHORT[from]);
      here.casts[from][to](out.data, x.wide().data, 131);
      out.write("cast", SHORT[from]);
    }
}

// A strided operand, an operand of another dtype, and an output that is not dense; on two threads.
void run_program() {
  constexpr i64 ROWS = 300, COLUMNS = 401;
  for (int type : {f32, f16, i16}) {
    const LoopEntry* add = nullptr;
    for (int f = 0; f < here.n_families; f++)
      for (int k = 0; k < here.families[f]->n_loops; k++) {
        const LoopEntry& entry = here.families[f]->loops[k];
        if (!strcmp(entry.name, "add") && entry.common == type) add = &entry;
      }
    Memory x(ROWS * COLUMNS, type), y(COLUMNS, i8), out(2 * ROWS * COLUMNS, type);
    x.drawn(true), y.drawn(true);
    engine::Program program = {1, 3, 4, 2};
    const int dtypes[] = {type, type, i8, type};
    for (int k = 0; k < 4; k++)
      program.itemsize[k] = ITEMSIZE[dtypes[k]], program.dtype[k] = dtypes[k];
    program.step[0] = {nullptr, here.casts[i8][type], 2, {3, 2}};
    program.step[1] = {add->loop, nullptr, 3, {0, 1, 3}};
    program.capability = &here;
    const i64 item = ITEMSIZE[type];
    engine::Walk walk = {2, ROWS * COLUMNS, {COLUMNS, ROWS}, {out.data, x.data, y.data},
                         {{2 * item, 2 * item * COLUMNS}, {item * ROWS, item}, {1, 0}}};
    engine::coalesce(walk, 3);
    engine::run(program, walk, nullptr);
    out.write("program", SHORT[type]);
  }
}

// --- functions of families ----------------------------------------------------------------------

Array array_of(const Memory& memory, i64 rows, i64 columns) {
  const int size = ITEMSIZE[memory.dtype];
  Array made = {memory.data, memory.count, 2, memory.dtype, size};
  made.shape[0] = rows, made.shape[1] = columns;
  made.stride[0] = columns * size, made.stride[1] = size;
  return made;
}

struct Asked {
  Array array[16];
  i64 integer[8];
  double real[4];
  int n_arrays, n_ints, n_floats;
};

void call(const char* family, const char* name, const Asked& asked) {
  for (int f = 0; f < here.n_families; f++)
    for (int k = 0; k < here.families[f]->n_functions; k++) {
      const FunctionEntry& entry = here.families[f]->functions[k];
      if (strcmp(here.families[f]->name, family) || strcmp(entry.name, name)) continue;
      const i64 answer = entry.function({asked.n_arrays, asked.n_ints, asked.n_floats, asked.array,
                                         asked.integer, asked.real, engine::share, 2});
      if (!answer) return;
      fprintf(stderr, "%s %s answers %lld\n", family, name, answer);
      exit(1);
    }
  fprintf(stderr, "there is no %s %s\n", family, name);
  exit(1);
}

constexpr i64 R = 67, C = 1031;  // rows and columns of what functions take

void run_reductions() {
  char name[32];
  const auto reduced = [&](const char* family, const char* op, int of, int given, int to) {
    for (i64 axes : {1, 2, 3}) {
      snprintf(name, sizeof name, "%s %s", op, SHORT[of]);
      Memory x(R * C, given), out(axes == 3 ? 1 : axes == 1 ? C : R, to);
      Array result = array_of(out, 1, out.count), none = {};
      result.ndim = axes == 3 ? 0 : 1, result.shape[0] = out.count;
      result.stride[0] = ITEMSIZE[to];
      call(family, name,
           {{array_of(x.drawn(false), R, C), result, none}, {axes}, {(double)(R * C)}, 3, 1, 1});
      out.write(family, name);
    }
  };
  for (int of : {f32, f64}) {
    for (const char* op : {"sum", "mean", "prod", "nansum", "amax", "amin"})
      reduced("reduce", op, of, of, of);
    for (const char* op : {"var", "std", "logsumexp", "norm2", "norm1", "norm_most", "norm_least"})
      reduced("moments", op, of, of, of);
  }
  reduced("reduce", "sum", f32, f16, f16), reduced("reduce", "sum", f32, bf16, bf16);
  for (int of : {u8, i16, i64_}) reduced("reduce", "amin", of, of, of);
  reduced("reduce", "sum", i64_, i8, i64_), reduced("reduce", "prod", i64_, i64_, i64_);
}

void run_rows(int of) {
  char name[32];
  Memory x(R * C, of), grad(R * C, of), out(R * C, of), places(R * C, i64_);
  x.drawn(false), grad.drawn(false);
  const Array given = array_of(x, R, C), to = array_of(out, R, C), at = array_of(places, R, C);
  for (i64 axis : {0, 1}) {
    for (const char* op : {"cumsum", "cumprod", "logcumsumexp"}) {
      call("scan", op, {{given, to}, {axis}, {}, 2, 1, 0});
      out.write("scan", op);
    }
    for (const char* op : {"cummax", "cummin"}) {
      call("scan", op, {{given, to, at}, {axis}, {}, 3, 1, 0});
      out.write("scan", op), places.write("scan", op);
    }
    for (const char* op : {"softmax", "log_softmax"}) {
      call("softmax", op, {{given, to}, {axis}, {}, 2, 1, 0});
      out.write("softmax", op);
      Memory back(R * C, of);
      snprintf(name, sizeof name, "%s_backward", op);
      call("softmax", name,
           {{array_of(grad, R, C), to, array_of(back, R, C)}, {axis}, {}, 3, 1, 0});
      back.write("softmax", name);
    }
  }
  const int computed = of == f64 ? f64 : f32;
  Memory by(C, computed), more(C, computed), mean(R, computed), rstd(R, computed);
  Array means = array_of(mean, 1, R), deviations = array_of(rstd, 1, R);
  means.ndim = deviations.ndim = 1, means.shape[0] = deviations.shape[0] = R;
  means.stride[0] = deviations.stride[0] = ITEMSIZE[computed];
  call("norm", "normalized",
       {{given, array_of(by.drawn(false), 1, C), array_of(more.drawn(false), 1, C), to, means,
         deviations}, {}, {1e-5}, 6, 0, 1});
  out.write("norm", "normalized"), mean.write("norm", "mean"), rstd.write("norm", "rstd");
}

// Three sequences of 3, 2 and 1 steps; of kinds with 1, 1, 4 and 3 gates.
void run_recurrent(int of) {
  constexpr i64 H = 70, N = 3, STEPS = 3, ALL = 6;
  char name[32];
  Memory sizes(STEPS, i64_);
  for (i64 t = 0; t < STEPS; t++) ((i64*)sizes.data)[t] = N - t;
  Array by_time = array_of(sizes, 1, STEPS), none = {};
  by_time.ndim = 1, by_time.shape[0] = STEPS, by_time.stride[0] = 8;
  for (i64 kind = 0; kind < 4; kind++) {
    const i64 G = (kind < 2 ? 1 : kind == 2 ? 4 : 3) * H;
    Memory gates(ALL * G, of), weight(G * H, of), bias(G, of), output(ALL * H, of), h(N * H, of);
    Memory c(N * H, of), cells(ALL * H, of), hx(N * H, of), cx(N * H, of), grad(ALL * H, of);
    Memory slopes(ALL * G, of), hidden(ALL * G, of), previous(ALL * H, of);
    const bool is_lstm = kind == 2, is_gru = kind == 3;
    const Array made = array_of(kind < 2 ? gates : output, ALL, H);
    const Array state = is_lstm ? array_of(c, N, H) : none;
    const Array kept = kind < 2 ? none : array_of(cells, ALL, H);
    for (Memory* x : {&gates, &weight, &bias, &h, &c, &hx, &cx, &grad}) x->drawn(false);
    const Array of_gates = array_of(gates, ALL, G), weights = array_of(weight, G, H);
    snprintf(name, sizeof name, "steps %s", SHORT[of]);
    call("recurrent", name,
         {{of_gates, weights, is_gru ? array_of(bias, 1, G) : none, made, array_of(h, N, H), state,
           kept, by_time}, {kind, kind & 1}, {}, 8, 2, 0});
    gates.write("recurrent", "gates"), h.write("recurrent", "hy"), c.write("recurrent", "cy");
    snprintf(name, sizeof name, "slopes %s", SHORT[of]);
    call("recurrent", name,
         {{of_gates, kept, weights, made, array_of(hx, N, H), is_lstm ? array_of(cx, N, H) : none,
           array_of(grad, ALL, H), array_of(h, N, H), state, array_of(slopes, ALL, G),
           is_gru ? array_of(hidden, ALL, G) : none, array_of(previous, ALL, H), by_time},
          {kind, kind & 1}, {}, 13, 2, 0});
    for (const Memory* x : {&h, &slopes, &previous}) x->write("recurrent", "slopes");
  }
}

void run_others() {
  char name[32];
  for (int of : {f16, bf16, f32, f64})
    for (const char* op : {"uniform", "normal", "exponential", "cauchy", "geometric"}) {
      Memory out(R * C, of);
      snprintf(name, sizeof name, "%s %s", op, SHORT[of]);
      call("random", name, {{array_of(out, R, C)}, {42, 7}, {0.25, 1.5}, 1, 2, 2});
      out.write("random", op);
    }
  for (int of : {u8, i16, u32, i64_, f16, bf16, f32, f64}) {
    Memory x(R * C, of), first(R * 9, of), places(R * 9, i64_);
    x.drawn(true);
    snprintf(name, sizeof name, "first %s", SHORT[of]);
    call("order", name,
         {{array_of(first, R, 9), array_of(places, R, 9), array_of(x, R, C)}, {1}, {}, 3, 1, 0});
    first.write("order", "first");
    for (const char* op : {"kth", "median", "nanmedian", "mode"}) {
      Memory value(R, of), place(R, i64_);
      snprintf(name, sizeof name, "%s %s", op, SHORT[of]);
      call("order", name,
           {{array_of(value, R, 1), array_of(place, R, 1), array_of(x, R, C)}, {C / 2}, {}, 3, 1,
            0});
      value.write("order", op), place.write("order", op);
    }
    Memory sorted(R * C, of), order(R * C, i64_);
    snprintf(name, sizeof name, "sort %s", SHORT[of]);
    call("order", name,
         {{array_of(sorted, R, C), array_of(order, R, C), array_of(x, R, C)}, {1}, {}, 3, 1, 0});
    sorted.write("order", "sort"), order.write("order", "sort");
  }
  for (int of : {u8, i8, u16, i16, u32, i32, u64_, i64_, f16, bf16, f32, f64}) {
    Memory out(R * C, of);
    snprintf(name, sizeof name, "arange %s", SHORT[of]);
    call("range", name, {{array_of(out, R, C)}, {3, -2}, {0.3, -0.7}, 1, 2, 2});
    out.write("range", "arange");
    if (!is_floating(of)) continue;
    snprintf(name, sizeof name, "linspace %s", SHORT[of]);
    call("range", name, {{array_of(out, R, C)}, {}, {-3.1, 2.7}, 1, 0, 2});
    out.write("range", "linspace");
  }
  for (int of : {f32, f64}) {
    Memory x(R * C, of), out(R * 15, of), places(R * 15, i64_), back(R * C, of);
    Array from = array_of(x.drawn(false), R, C), to = array_of(out, R, 15);
    Array images[3] = {from, to, array_of(places, R, 15)};
    for (Array& image : images) {  // (rows, 1, 1, 1, columns)
      image.ndim = 5, image.shape[4] = image.shape[1], image.stride[4] = image.stride[1];
      for (int d : {1, 2, 3}) image.shape[d] = 1, image.stride[d] = 0;
    }
    call("pool_windows", "adaptive_avg_pool", {{images[0], images[1]}, {}, {}, 2, 0, 0});
    out.write("pool_windows", "adaptive_avg_pool");
    call("pool_windows", "adaptive_max_pool", {{images[0], images[1], images[2]}, {}, {}, 3, 0, 0});
    out.write("pool_windows", "adaptive_max_pool");
    places.write("pool_windows", "adaptive_max_pool");
    for (i64 k = 0; k < R * 15; k++) ((i64*)places.data)[k] = k * 7 % C;
    call("pool_windows", "max_pool_backward",
         {{to, array_of(places, R, 15), array_of(back, R, C)}, {}, {}, 3, 0, 0});
    back.write("pool_windows", "max_pool_backward");
  }
  for (int of : {f32, f64}) {
    Memory x(R * C, of), targets(R * C, i64_), losses(R, of), made(R * C, of);
    for (i64 k = 0; k < R * C; k++) ((i64*)targets.data)[k] = k * 7 % (C + 1) - 1;
    const Array from = array_of(x.drawn(false), R, C), at = array_of(targets, R, C);
    const Array sums = array_of(losses, R, 1), to = array_of(made, R, C);
    call("margin", "multilabel", {{from, at, sums, to}, {}, {}, 4, 0, 0});
    losses.write("margin", "multilabel"), made.write("margin", "multilabel");
    call("margin", "multilabel_backward", {{sums, from, at, to}, {R}, {}, 4, 1, 0});
    made.write("margin", "multilabel_backward");
  }
  for (const char* op : {"small", "gemm"})
    for (int of : {f32, f64}) {  // gemm's sums have two parts
      Memory a(4 * 5 * 300, of), b(4 * 300 * 70, of), out(4 * 5 * 70, of);
      Array given[] = {array_of(a.drawn(false), 5, 300), array_of(b.drawn(false), 300, 70),
                       array_of(out, 5, 70)};
      for (Array& x : given) {
        memmove(x.shape + 1, x.shape, 2 * sizeof(i64)), memmove(x.stride + 1, x.stride, 16);
        x.ndim = 3, x.shape[0] = 4, x.stride[0] = x.shape[1] * x.stride[1];
      }
      snprintf(name, sizeof name, "%s %s", op, SHORT[of]);
      call("matmul", name, {{given[0], given[1], given[2]}, {}, {}, 3, 0, 0});
      out.write("matmul", op);
    }
  for (int of : {u8, f16, f32, f64, c128}) {
    Memory x(R * C, of), out(R * C, of);
    Array turned = array_of(x.drawn(true), C, R);
    turned.shape[0] = R, turned.shape[1] = C;
    turned.stride[1] = R * ITEMSIZE[of], turned.stride[0] = ITEMSIZE[of];
    call("copy", "copy", {{array_of(out, R, C), turned}, {1 << 20}, {}, 2, 1, 0});
    out.write("copy", "copy");
  }
}

void run_runs() {
  char name[32];
  for (int of : {b8, u8, i64_, f16, bf16, f32, f64}) {
    const i64 n = R * C;
    Memory x(n, of), before(n / 4096 + 2, i64_), numbers(n, i64_);
    const Array from = array_of(x.drawn(true), 1, n), blocks = array_of(before, 1, before.count);
    snprintf(name, sizeof name, "count %s", SHORT[of]);
    call("unique", name, {{from, blocks}, {}, {}, 2, 0, 0});
    const i64 total = ((i64*)before.data)[(n + 4095) / 4096];
    Memory values(total, of), counts(total, i64_);
    snprintf(name, sizeof name, "find %s", SHORT[of]);
    call("unique", name,
         {{array_of(values, 1, total), array_of(numbers, 1, n), array_of(counts, 1, total), from,
           blocks}, {}, {}, 5, 0, 0});
    for (const Memory* made : {&values, &numbers, &counts}) made->write("unique", "find");
  }
}

void run_samples() {
  const i64 n = R * C;
  Memory first(n, f64), second(n, f64), places(n, i64_), out(n, f64), accepted(n, b8);
  first.positive(), second.positive();
  for (i64 k = 0; k < n; k++) {
    ((i64*)places.data)[k] = n - 1 - k;
    ((double*)first.data)[k] = floor(((double*)first.data)[k] * 50);
    ((double*)second.data)[k] /= 10;
  }
  const Array to = array_of(out, 1, n), at = array_of(places, 1, n), is = array_of(accepted, 1, n);
  const Array a = array_of(first, 1, n), b = array_of(second, 1, n);
  call("counts", "poisson large", {{to, is, at, a}, {42, 7, 9}, {}, 4, 3, 0});
  out.write("counts", "poisson"), accepted.write("counts", "poisson");
  call("counts", "binomial large", {{to, is, at, a, b}, {42, 7, 9}, {}, 5, 3, 0});
  out.write("counts", "binomial"), accepted.write("counts", "binomial");
  call("counts", "poisson small", {{to, at, b}, {100, 42, 7}, {}, 3, 3, 0});
  out.write("counts", "poisson");
  call("counts", "binomial small", {{to, at, a, b}, {100, 42, 7}, {}, 4, 3, 0});
  out.write("counts", "binomial");
}

}  // namespace

int main() {
  engine::set_threads(2);
  for (int f = 0; f < here.n_families; f++)
    for (int k = 0; k < here.families[f]->n_loops; k++) {
      const LoopEntry& entry = here.families[f]->loops[k];
      if (!entry.loop) continue;  // an operator that has none for this dtype
      for (i64 n : {1, 7, 300})
        for (int ones = 0; ones < entry.inputs + 1; ones++)
          run_loop(here.families[f]->name, entry, n, ones);
    }
  run_casts();
  run_program();
  run_reductions();
  run_rows(f32), run_rows(f64), run_rows(f16), run_rows(bf16);
  run_recurrent(f32), run_recurrent(f64);
  run_others(), run_runs(), run_samples();
  return 0;
}
