// One step of some adjacent units of one sequence: the gates of LSTM, GRU and RNN, and their
// gradients.
//
// Numbers  sigmoid and tanh are the functors of family unary; each operation is rounded.
#ifndef GPUTENSOR_RECURRENT_CELLS
#define GPUTENSOR_RECURRENT_CELLS

#include "capability.h"

namespace CAPABILITY {
#include "math/functions.cuh"

enum Kind { RNN_TANH, RNN_RELU, LSTM, GRU };

#define CELL template <class T> __attribute__((noinline)) static void
#define MANY _Pragma("GCC ivdep") for (i64 u = 0; u < n; ++u)

template <class T> static inline T sigmoid_of(T x) { return 1 / (1 + math_exp(-x)); }

// gates[g * h + u]: the contribution of the input, overwritten by the gate. sums[g * UNITS + u]:
// the contribution of the hidden state. For an LSTM, `cell` is the cell state before the step, then
// after it. For a GRU, it is set to the hidden state's contribution to the new gate, including
// `bias`.
CELL lstm_step(T* gates, i64 h, const T* sums, i64 apart, T* cell, T* hidden, i64 n) {
  T *i = gates, *f = i + h, *g = f + h, *o = g + h;
  const T *si = sums, *sf = si + apart, *sg = sf + apart, *so = sg + apart;
  MANY {
    const T in = sigmoid_of(i[u] + si[u]), forget = sigmoid_of(f[u] + sf[u]);
    const T made = math_tanh(g[u] + sg[u]), out = sigmoid_of(o[u] + so[u]);
    const T now = forget * cell[u] + in * made;
    i[u] = in, f[u] = forget, g[u] = made, o[u] = out, cell[u] = now;
    hidden[u] = out * math_tanh(now);
  }
}

CELL gru_step(T* gates, i64 h, const T* sums, i64 apart, const T* bias, i64 bias_apart, T* cell,
              const T* before, T* hidden, i64 n) {
  T *r = gates, *z = r + h, *c = z + h;
  const T *sr = sums, *sz = sr + apart, *sc = sz + apart;
  const T *br = bias, *bz = br + bias_apart, *bc = bz + bias_apart;
  MANY {
    const T reset = sigmoid_of(r[u] + (sr[u] + br[u])), update = sigmoid_of(z[u] + (sz[u] + bz[u]));
    const T share = sc[u] + bc[u], made = math_tanh(c[u] + reset * share);
    r[u] = reset, z[u] = update, c[u] = made, cell[u] = share;
    hidden[u] = made + update * (before[u] - made);
  }
}

CELL tanh_step(const T* gates, const T* sums, T* hidden, i64 n) {
  MANY hidden[u] = math_tanh(gates[u] + sums[u]);
}

CELL relu_step(const T* gates, const T* sums, T* hidden, i64 n) {
  MANY {
    const T x = gates[u] + sums[u];
    hidden[u] = x < 0 ? 0 : x;  // NaN stays NaN
  }
}

// grad: of the hidden state after the step, without the part that comes from the product with
// `slopes`. It is overwritten by the part that reaches the previous state directly. more: the
// gradient of the output. of_cell: of the cell state after the step, then before it.
CELL lstm_slopes(const T* gates, i64 h, const T* cell, const T* cell_before, const T* more, T* grad,
                 T* of_cell, T* slopes, i64 n) {
  const T *i = gates, *f = i + h, *g = f + h, *o = g + h;
  T *di = slopes, *df = di + h, *dg = df + h, *d_o = dg + h;
  MANY {
    const T all = grad[u] + more[u], flat = math_tanh(cell[u]);
    const T to_cell = of_cell[u] + all * o[u] * (1 - flat * flat);
    di[u] = to_cell * g[u] * (i[u] * (1 - i[u]));
    df[u] = to_cell * cell_before[u] * (f[u] * (1 - f[u]));
    dg[u] = to_cell * i[u] * (1 - g[u] * g[u]);
    d_o[u] = all * flat * (o[u] * (1 - o[u]));
    of_cell[u] = to_cell * f[u];
    grad[u] = 0;
  }
}

CELL gru_slopes(const T* gates, i64 h, const T* cell, const T* before, const T* more, T* grad,
                T* slopes, T* of_hidden, i64 n) {
  const T *r = gates, *z = r + h, *c = z + h;
  T *dr = slopes, *dz = dr + h, *dc = dz + h;
  T *hr = of_hidden, *hz = hr + h, *hc = hz + h;
  MANY {
    const T all = grad[u] + more[u];
    const T to_new = all * (1 - z[u]) * (1 - c[u] * c[u]);
    const T to_reset = to_new * cell[u] * (r[u] * (1 - r[u]));
    const T to_update = all * (before[u] - c[u]) * (z[u] * (1 - z[u]));
    dr[u] = hr[u] = to_reset, dz[u] = hz[u] = to_update;
    dc[u] = to_new, hc[u] = to_new * r[u];
    grad[u] = all * z[u];
  }
}

CELL tanh_slopes(const T* hidden, const T* more, T* grad, T* slopes, i64 n) {
  MANY {
    slopes[u] = (grad[u] + more[u]) * (1 - hidden[u] * hidden[u]);
    grad[u] = 0;
  }
}

CELL relu_slopes(const T* hidden, const T* more, T* grad, T* slopes, i64 n) {
  MANY {
    slopes[u] = hidden[u] > 0 ? grad[u] + more[u] : 0;
    grad[u] = 0;
  }
}

#undef MANY
#undef CELL

}  // namespace CAPABILITY

#endif
