// Look-ups of listed_lookup.h, `at_once` numbers at a time; listed_lookup.cpp includes this once per instruction set,
// with its registers and what has an instruction of its own there, so this header has no guard.

inline constexpr int magnitudes = 0x7fffffff;

// Where numbers lie in a list.
struct Lookup {
  Ints bucket;
  Mask is_above, is_unsure;
};

FP4_LOOK_UP_PART void look_up(const ListedLookUp& list, const Ints& bits, const Floats& size, Lookup& out) {
  const Floats limit = Floats{} + 2 * ListedLookUp::buckets;
  const Floats v = size < limit ? size : limit;  // a NaN becomes the limit
  const Ints whole = __builtin_convertvector(v, Ints), last = Ints{} + (ListedLookUp::buckets - 1);
  out.bucket = (whole < last ? whole : last) | (bits >> 31 & ListedLookUp::buckets);
  Ints found;
  pick(list.middle, out.bucket, found);
  const Floats middle = (Floats)found, off = v - middle, near = middle * 0x1p-20f;
  out.is_above = above(v, middle);
  out.is_unsure =
      static_cast<Mask>(at_most((Ints)off & magnitudes, (Ints)near) | at_most(Ints{} + 0x7f800000, bits & magnitudes));
}

// Of each lane's bucket what stands below its midpoint or above, 32 bits each: codes or values.
FP4_LOOK_UP_PART void sides_of(const void* below, const void* above, const Lookup& at, Ints& out) {
  Ints high;
  pick(below, at.bucket, out);
  pick(above, at.bucket, high);
  choose(at.is_above, high, out);
}

// |x| * multiplier, without 2^e where there are exponents.
FP4_LOOK_UP_PART void sizes_of(const Ints& bits, const ListedUnits& u, int64_t at, Mask kept, Floats& out) {
  out = (Floats)(bits & magnitudes) * u.multiplier;
  if (u.exponents == nullptr) return;
  Ints e;
  load(u.exponents + at, kept, e);
  out = out * (Floats)((127 - e) << 23);
}

// Writes the codes of x[at..), and how many lanes are undecided.
FP4_LOOK_UP_PART void store_codes(const ListedLookUp& list, const Lookup& found, const ListedUnits& u, int64_t at,
                                  Mask kept, uint32_t* out, int& left) {
  Ints code;
  sides_of(list.below, list.above, found, code);
  if (u.exponents != nullptr) {
    Ints e;
    load(u.exponents + at, kept, e);
    code = code | (e << u.base_bits);
  }
  const auto unsure = static_cast<Mask>(found.is_unsure & kept);
  choose(unsure, ~Ints{}, code);
  store(out + at, kept, code);
  left += count(unsure);
}

// x[at..), where it lies, and its codes written.
FP4_LOOK_UP_PART void look_up_and_store(const ListedLookUp& list, const float* x, int64_t at, Mask kept,
                                        const ListedUnits& u, Ints& bits, Lookup& found, uint32_t* out, int& left) {
  Floats size;
  load(x + at, kept, bits);
  sizes_of(bits, u, at, kept, size);
  look_up(list, bits, size, found);
  store_codes(list, found, u, at, kept, out, left);
}

FP4_LOOK_UP void maxima(const float* x, int64_t cols, int64_t step, int32_t* out) {
  for (int64_t first = 0; first < cols; first += step) {
    const int64_t end = std::min(cols, first + step);
    Ints most = {};
    for (int64_t k = first; k < end; k += at_once) {
      Ints bits;
      load(x + k, first_lanes(end - k), bits);
      bits = bits & magnitudes;
      most = bits > most ? bits : most;
    }
    *out++ = largest_of(most);
  }
}

FP4_LOOK_UP int codes(const ListedLookUp& list, const float* x, int64_t n, const ListedUnits& u, uint32_t* out) {
  int left = 0;
  for (int64_t k = 0; k < n; k += at_once) {
    Ints bits;
    Lookup found;
    look_up_and_store(list, x, k, first_lanes(n - k), u, bits, found, out, left);
  }
  return left;
}

FP4_LOOK_UP void errors(const ListedLookUp& list, const float* x, int64_t cols, int64_t step, float g, TrialError kind,
                        uint32_t* out, ListedTrial* trial) {
  for (int64_t first = 0; first < cols; first += step, ++trial) {
    const int64_t end = std::min(cols, first + step);
    trial->left = 0;
    Ints sum = {};
    for (int64_t k = first; k < end; k += at_once) {
      const Mask kept = first_lanes(end - k);
      Ints bits, value;
      Lookup found;
      look_up_and_store(list, x, k, kept, {trial->multiplier}, bits, found, out, trial->left);
      sides_of(list.value_below, list.value_above, found, value);
      const Floats scaled = ((Floats)bits - (Floats)value * trial->scale * g) * trial->unit, before = (Floats)sum;
      const Floats off = (Floats)((Ints)scaled & magnitudes);
      const Floats more = before + (kind == TrialError::mse ? off * off : off), most = off > before ? off : before;
      choose(kept, kind == TrialError::max ? (Ints)most : (Ints)more, sum);
    }
    trial->error = kind == TrialError::max ? float_of(static_cast<uint32_t>(largest_of(sum))) : sum_of((Floats)sum);
  }
}

FP4_LOOK_UP bool exponents(const Quantizer& q, const float* x, int64_t n, float multiplier,
                           int (&out)[most_micro_width]) {
  const ElementGrid& grid = *q.element.grid;
  const int emax = format_of(static_cast<Element>(grid.base)).max_exponent();
  int all = 0, widest = at_once;
  for (const MicroLevel& level : grid.micro) {
    all += (1 << level.bits) - 1;
    if (level.per == 0) continue;
    if (level.per > widest || (level.per & (level.per - 1)) != 0) return false;
    widest = level.per;
  }
  Mask unsure = {};
  for (int64_t k = 0; k < n; k += at_once) {
    const Mask kept = first_lanes(n - k);
    Ints size, sum = {};
    load(x + k, kept, size);
    size = size & magnitudes;
    int below = all;
    for (const MicroLevel& level : grid.micro) {
      if (level.per == 0) continue;
      const int most = (1 << level.bits) - 1;
      below -= most;
      Ints largest = size;  // of each part of `per` lanes, in all of them
      for (int by = 1; by < level.per; by *= 2) {
        Ints other;
        turn(largest, by, other);
        largest = largest > other ? largest : other;
      }
      const Ints v = (Ints)((Floats)largest * multiplier), fraction = (v + 8) & 0x7fffff;
      unsure = static_cast<Mask>(unsure | (at_most(fraction, Ints{} + 16) & at_most(Ints{} + 1, largest)));
      const Ints exponent = (v >> 23) - (127 + emax + below) - sum, none = {}, top = none + most;
      const Ints e = exponent > none ? exponent : none;
      sum = sum + (e < top ? e : top);
    }
    store(reinterpret_cast<uint32_t*>(out) + k, kept, sum);
  }
  return count(unsure) == 0;
}

FP4_LOOK_UP int64_t decode(const float* values, bool is_packed, const uint8_t* from, int64_t n, float size,
                           float factor, float* out) {
  int64_t k = 0;
  for (; k + at_once <= n; k += at_once) {
    Floats value;
    decoded(values, is_packed, from + (is_packed ? k / 2 : k), value);
    Ints bits = (Ints)(value * size * factor);
    choose(at_most(Ints{} + 0x7f800001, bits & magnitudes), Ints{} + static_cast<int>(canonical_nan_bits), bits);
    store(reinterpret_cast<uint32_t*>(out) + k, first_lanes(at_once), bits);
  }
  return k;
}
