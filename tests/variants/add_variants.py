#!/usr/bin/env python3
"""Writes a copy of include/fp4 with one made-up variant more on every axis, the way README.md says to add one:
enumerator, row and case in its header. add_variants.py INCLUDE_FP4 OUT_FOLDER
"""
import pathlib
import re
import sys

source, out = (pathlib.Path(a) for a in sys.argv[1:3])
texts = {path.name: path.read_text(encoding="utf-8") for path in source.glob("*.h")}


def insert(header, pattern, added, flags=re.S):
    """Puts `added` after the one match of `pattern`."""
    found = list(re.finditer(pattern, texts[header], flags))
    if len(found) != 1:
        sys.exit(f"{header}: {len(found)} places match {pattern}")
    end = found[0].end()
    texts[header] = texts[header][:end] + added + texts[header][end:]


def enumerator(header, axis, names="variant"):
    insert(header, rf"enum class {axis} : uint(?:8|16)_t \{{[^}}]*(?=\}})", f", {names}")


def row(header, table, fields):
    insert(header, rf"\b{table}\[\] = \{{(?:(?!\n}};).)*(?=\n}};)", f"\n    {{{fields}}},")


def case(header, function, text):
    """The first thing in the first switch of `function`."""
    insert(header, rf"\n[^\n]*\b{function}\([^;]*?\{{(?:(?!\n}}).)*?\n +switch \([^\n]*\{{\n", f"    {text}\n")


def first(header, function, text):
    """The first statement of `function`."""
    insert(header, rf"\n[^\n/]*\b{function}\([^;{{]*\{{\n", f"  {text}\n")


enumerator("rounding.h", "Rounding", "variant, variant_drawn")
row("rounding.h", "rounding_table", 'Rounding::variant, "variant", "up from a quarter", "test", false')
row("rounding.h", "rounding_table", 'Rounding::variant_drawn, "variant_drawn", "down where others go up", "test", true')
case("rounding.h", "is_stochastic", "case Rounding::variant: return false; case Rounding::variant_drawn: return true;")
case("rounding.h", "rounds_up", "case Rounding::variant: return d.bits >= uint64_t{1} << 62; case Rounding::variant_drawn: "
     "return inexact && !stochastic_rounds_up(Rounding::stochastic, random_bits, d, r);")

enumerator("scale_rule.h", "ScaleRule")
row("scale_rule.h", "scale_rule_table", 'ScaleRule::variant, "variant", "floor, one up", "test", 0, ScaleFamily::power')
case("scale_rule.h", "family_of", "case ScaleRule::variant: return ScaleFamily::power;")
case("scale_rule.h", "rule_divisor", "case ScaleRule::variant: return {{1, element.max_exponent() - 1, false}, 1};")
case("scale_rule.h", "power_rule_exponent", "case ScaleRule::variant: return a.log2_floor() - emax + 1;")

enumerator("hadamard.h", "HadamardSigns")
enumerator("hadamard.h", "HadamardNormalise")
row("hadamard.h", "hadamard_signs_table", 'HadamardSigns::variant, "variant", "every second", "test", false')
row("hadamard.h", "hadamard_normalise_table", 'HadamardNormalise::variant, "variant", "halved", "test", 1')
case("hadamard.h", "hadamard_signs",
     "case HadamardSigns::variant: for (uint32_t& w : mask.word) w = 0xAAAAAAAAu; return mask;")
case("hadamard.h", "product_divisor", "case HadamardNormalise::variant: return static_cast<float>(size) / 4;")
case("hadamard.h", "forward_factor", "case HadamardNormalise::variant: return 0.5f;")
case("hadamard.h", "inverse_factor", "case HadamardNormalise::variant: return 2.0f / static_cast<float>(h.size);")

enumerator("arithmetic.h", "Arithmetic")
row("arithmetic.h", "arithmetic_table", 'Arithmetic::variant, "variant", "fl32(fl32(x/g)/s)", "test"')
case("arithmetic.h", "scale_quotient", "case Arithmetic::variant: return magnitude_or_overflow(amax / t.g / m.rounded());")
case("arithmetic.h", "payload_order_of", "case Arithmetic::variant: return PayloadOrder::variant;")
enumerator("arithmetic.h", "PayloadOrder")
row("arithmetic.h", "payload_order_table", 'PayloadOrder::variant, "variant", "fl32(fl32(x/g)/s)", "test"')
case("arithmetic.h", "payload", "case PayloadOrder::variant: u = a / t.g / s; break;")

enumerator("tensor_scale.h", "TensorScale")
row("tensor_scale.h", "tensor_scale_table", 'TensorScale::variant, "variant", "as current", "test", 1, false')

for axis, table in (("ZeroBlock", "zero_block_table"), ("ZeroScale", "zero_scale_table"),
                    ("NegativeZero", "negative_zero_table"), ("Nonfinite", "nonfinite_table"), ("Ragged", "ragged_table")):
    enumerator("policy.h", axis)
    row("policy.h", table, f'{axis}::variant, "variant", "", "test"')
first("block.h", "zero_block_code", "if (q.zero_block == ZeroBlock::variant) return 1u;")
first("block.h", "apply_scale_policies",
      "if (q.scale.has_zero && code == 0 && q.zero_scale == ZeroScale::variant) return 3u;")
first("block.h", "element_code",
      "if (magnitude_bits(element) == 0 && q.negative_zero == NegativeZero::variant) return q.element.sign_code();")
insert("block.h", r"block_scale_code\([^;{}]*BlockMaximum maximum[^;{]*\{\n",
       "  if (maximum.has_nonfinite && q.nonfinite == Nonfinite::variant) return 1u;\n")

enumerator("float_format.h", "Element", "variant, variant4")
row("float_format.h", "element_table", 'Element::variant, "variant", "E3M1", "test", {3, 1, 3, true, false, true, 0xF, no_code}')
row("float_format.h", "element_table", 'Element::variant4, "variant4", "E2M1, bias 2", "test", {2, 1, 2, true, false, true, 0x7, no_code}')
enumerator("float_format.h", "Scale")
row("float_format.h", "scale_table", 'Scale::variant, "variant", "E4M2", "test", {4, 2, 7, false, false, true, 0x3F, no_code}')

enumerator("accumulator.h", "AccumulatorKind")
row("accumulator.h", "accumulator_kind_table", 'AccumulatorKind::variant, "variant", "minus the sum in fp64"')
row("accumulator.h", "accumulator_table", '"variant_kind", "", "test", Evidence::defined, {.kind = AccumulatorKind::variant}')
row("accumulator.h", "accumulator_table", '"variant_rounding", "", "test", Evidence::defined, {.kind = AccumulatorKind::block, .rounding = Rounding::variant}')
row("accumulator.h", "accumulator_table", '"variant_row", "", "test", Evidence::defined, {.kind = AccumulatorKind::aligned, .group = 48, .inner = 12, '
    ".fraction_bits = 27, .rounding = Rounding::toward_zero}")
case("accumulator.h", "takes", "case AccumulatorKind::variant:")
case("accumulate.h", "plain_dot", "case AccumulatorKind::variant: return -double_dot(a, b, begin, end);")

enumerator("estimator.h", "Estimator")
enumerator("estimator.h", "ScaleGradient")
row("estimator.h", "estimator_table", 'Estimator::variant, "variant", "1 or 2", "test", 0, 0')
row("estimator.h", "scale_gradient_table", 'ScaleGradient::variant, "variant", "half of the gradient", "test", 0')
case("estimator.h", "estimator_multiplier", "case Estimator::variant: return w < 1.0f ? 2.0f : 1.0f;")
case("estimator.h", "block_gradient", "case ScaleGradient::variant: term = 0.5f * gj; break;")

out.mkdir(parents=True, exist_ok=True)
for name, text in texts.items():
    path = out / name
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
