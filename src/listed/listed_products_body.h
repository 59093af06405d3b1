// Sums of a tile of listed_products.cpp, which includes this once per instruction set, with its LANES, the attributes
// of its functions, FUSED(x, y, z), x*y + z in one rounding or two, WIDENED(floats) and, where there are FMAs, FUSED32
// of vectors and SPREAD32(x): so this header has no guard.

typedef double Doubles __attribute__((vector_size(8 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int64_t Longs __attribute__((vector_size(8 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

// The sums of a block that its bound leaves open, by the core. Those beyond fp32 stay.
__attribute__((noinline)) void mend(const Product& p, const int64_t (&rows)[tile_rows], int64_t col, int64_t block,
                                    const Ints (&open)[tile_rows], const Floats (&acc)[tile_rows],
                                    Floats (&out)[tile_rows]) {
  for (int r = 0; r < tile_rows; ++r)
    for (int i = 0; i < LANES; ++i)
      if (open[r][i] != 0)
        out[r][i] = is_finite(acc[r][i])
                        ? add_block(acc[r][i], whole_dot(p, rows[r], col + i, block), p.quantum_log2,
                                    p.a.scale[p.a.at(rows[r], p.a.runs, block)],
                                    p.b.scale[p.b.at(col + i, p.b.runs, block)], Rounding::nearest_even)
                        : acc[r][i];
}

// acc + dot*scale to fp32, and where the ends of its bound differ. fp64 rounds to odd (what it loses, TwoSum tells, is
// then kept in its last bit), so that fp32 rounds sums of exact dots once.
FP4_SUMS_PART void add(const Floats& acc, const Doubles& dot, const Floats& scale, const Doubles& slack, Floats& sum,
                       Ints& differ) {
  const Doubles before = (Doubles)WIDENED(acc), term = dot * (Doubles)WIDENED(scale), whole = before + term;
  const Doubles back = whole - before, lost = (before - (whole - back)) + (term - back);
  const Longs is_even_and_rounded = ((lost > 0) | (lost < 0)) & (((Longs)whole & 1) - 1);
  const Longs toward = (((Longs)whole ^ (Longs)lost) < 0) | 1;
  const Doubles odd = (Doubles)((Longs)whole + (toward & is_even_and_rounded));
  const Doubles off = (Doubles)((slack > 0) & (Longs)(slack + (Doubles)((Longs)whole & INT64_MAX) * 0x1p-51));
  sum = __builtin_convertvector(odd + off, Floats);
  differ = (Ints)sum ^ (Ints) __builtin_convertvector(odd - off, Floats);
}

FP4_SUMS_PART bool is_any(const Ints& x) {
  int64_t word[sizeof x / sizeof(int64_t)], any = 0;
  std::memcpy(word, &x, sizeof word);
  for (const int64_t w : word) any |= w;
  return any != 0;
}

// Rows of A from `row` on times those of B from `col` on; rows beyond A's repeat its last one. out [tile_rows, LANES].
FP4_SUMS void sums(const Product& p, int64_t row, int64_t col, float* out) {
  const Side &a = p.a, &b = p.b;
  int64_t rows[tile_rows];
  const double *x[tile_rows], *y = b.value.data() + b.at(col, b.cols, 0), *slack_a[tile_rows];
  const float* scale_a[tile_rows];
  Floats acc[tile_rows] = {};
  for (int r = 0; r < tile_rows; ++r) {
    rows[r] = smaller(row + r, p.rows - 1);
    x[r] = a.value.data() + a.at(rows[r], a.cols, 0);
    slack_a[r] = a.slack.data() + a.at(rows[r], a.runs, 0), scale_a[r] = a.scale.data() + a.at(rows[r], a.runs, 0);
  }
  for (int64_t block = 0, k = 0; block < a.runs; ++block) {
    Doubles dot[tile_rows] = {}, slack;
    for (const int64_t end = smaller(a.cols, k + p.run); k < end; ++k) {
      Doubles column;
      std::memcpy(&column, y + k * LANES, sizeof column);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) dot[r] = (Doubles)FUSED(x[r][k], column, dot[r]);
    }
    Floats scale, next[tile_rows];
    std::memcpy(&scale, b.scale.data() + b.at(col, b.runs, block), sizeof scale);
    std::memcpy(&slack, b.slack.data() + b.at(col, b.runs, block), sizeof slack);
    Ints any = {}, differ;
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      add(acc[r], dot[r], scale_a[r][block] * scale, slack_a[r][block] * slack, next[r], differ);
      any |= differ;
    }
    if (is_any(any)) {
      Ints open[tile_rows];
      Floats before[tile_rows], after[tile_rows];
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r)
        add(acc[r], dot[r], scale_a[r][block] * scale, slack_a[r][block] * slack, next[r], open[r]);
      std::memcpy(before, acc, sizeof acc), std::memcpy(after, next, sizeof next);
      mend(p, rows, col, block, open, before, after);
      std::memcpy(next, after, sizeof next);
    }
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) acc[r] = next[r];
  }
  std::memcpy(out, acc, sizeof acc);
}

// The same where no dot times its scales has more bits than fp32: a block is rounded once, by its FMA. out
// [tile_rows, 2*LANES].
#ifdef FUSED32
FP4_SUMS void narrow_sums(const Product& p, int64_t row, int64_t col, float* out) {
  typedef float Wide __attribute__((vector_size(8 * LANES)));
  const Side &a = p.a, &b = p.b;
  const float *x[tile_rows], *scale_a[tile_rows], *y = b.narrow.data() + b.at(col, b.cols, 0);
  Wide acc[tile_rows] = {};
  for (int r = 0; r < tile_rows; ++r) {
    const int64_t of = smaller(row + r, p.rows - 1);
    x[r] = a.narrow.data() + a.at(of, a.cols, 0), scale_a[r] = a.scale.data() + a.at(of, a.runs, 0);
  }
  for (int64_t block = 0, k = 0; block < a.runs; ++block) {
    Wide dot[tile_rows] = {}, column;
    for (const int64_t end = smaller(a.cols, k + p.run); k < end; ++k) {
      std::memcpy(&column, y + k * 2 * LANES, sizeof column);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) dot[r] = (Wide)FUSED32(SPREAD32(x[r][k]), column, dot[r]);
    }
    std::memcpy(&column, b.scale.data() + b.at(col, b.runs, block), sizeof column);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r)
      acc[r] = (Wide)FUSED32(dot[r], (Wide)SPREAD32(scale_a[r][block]) * column, acc[r]);
  }
  std::memcpy(out, acc, sizeof acc);
}
#undef FUSED32
#undef SPREAD32
#endif
#undef LANES
#undef FP4_SUMS
#undef FP4_SUMS_PART
#undef FUSED
#undef WIDENED
