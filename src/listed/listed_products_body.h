// Sums of a tile of listed_products.cpp, which includes this once per instruction set, with its LANES, the attributes
// of its functions, FUSED(x, y, z), x*y + z in one rounding or two, and WIDENED(floats): so this header has no guard.

typedef double Doubles __attribute__((vector_size(8 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int64_t Longs __attribute__((vector_size(8 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

// The sums of a block that its bound leaves open, by the core.
__attribute__((noinline)) void mend(const Product& p, const int64_t (&rows)[tile_rows], int64_t col, int64_t block,
                                    const Ints (&differ)[tile_rows], const Floats (&acc)[tile_rows],
                                    Floats (&out)[tile_rows]) {
  for (int r = 0; r < tile_rows; ++r)
    for (int i = 0; i < LANES; ++i) {
      if (differ[r][i] == 0) continue;
      const size_t of_a = p.a.at(rows[r], p.a.runs, block), of_b = p.b.at(col + i, p.b.runs, block);
      if (is_finite(acc[r][i]))
        out[r][i] = add_block(acc[r][i], whole_dot(p, rows[r], col + i, block), p.quantum_log2, p.a.scale[of_a],
                              p.b.scale[of_b], Rounding::nearest_even);
      else
        out[r][i] = acc[r][i];
    }
}

// acc + dot*scale to fp32, and where the ends of its bound differ. `is_patient`: sums that lose nothing have none.
FP4_SUMS_PART void add(bool is_patient, const Floats& acc, const Doubles& dot, const Floats& scale,
                       const Doubles& slack, Floats& sum, Ints& differ) {
  const Doubles before = (Doubles)WIDENED(acc), term = dot * (Doubles)WIDENED(scale), whole = before + term;
  Doubles off = (Doubles)((Longs)whole & INT64_MAX) * 0x1p-51;
  if (is_patient) {
    const Doubles back = whole - before, lost = (before - (whole - back)) + (term - back);
    off = ((lost == 0) & (slack == 0)) ? Doubles{} : off;  // a slack below half a unit of fp64 would vanish
  }
  sum = __builtin_convertvector(whole + (slack + off), Floats);
  differ = (Ints)sum ^ (Ints) __builtin_convertvector(whole - (slack + off), Floats);
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
      add(false, acc[r], dot[r], scale_a[r][block] * scale, slack_a[r][block] * slack, next[r], differ);
      any |= differ;
    }
    if (is_any(any)) {
      Ints open[tile_rows];
      any = Ints{};
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) {
        add(true, acc[r], dot[r], scale_a[r][block] * scale, slack_a[r][block] * slack, next[r], open[r]);
        any |= open[r];
      }
      if (is_any(any)) {
        Floats before[tile_rows], after[tile_rows];
        std::memcpy(before, acc, sizeof acc), std::memcpy(after, next, sizeof next);
        mend(p, rows, col, block, open, before, after);
        std::memcpy(next, after, sizeof next);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) acc[r] = next[r];
  }
  std::memcpy(out, acc, sizeof acc);
}
#undef LANES
#undef FP4_SUMS
#undef FP4_SUMS_PART
#undef FUSED
#undef WIDENED
