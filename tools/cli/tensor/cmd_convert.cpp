// `fp4sim convert`: codes or scales from one order to another, and from one kind of file to another.
#include <fmt/format.h>

#include <algorithm>

#include "src/files/tensor_writer.h"
#include "src/layout/digit_layout.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct ConvertOptions {
  std::string in, out, nibbles, scale_layout, shape, type;
  bool force = false, json = false;
  InputOptions input;
};

// "high_first:marlin_uint32"; one word alone is where it goes to.
struct FromTo {
  std::string from, to;
};
FromTo from_to(const std::string& text, const std::string& usual) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {usual, text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// Element types that hold codes of so many bits: those of that width, and integers as wide as a byte or a word.
bool is_type_of_codes(const DtypeInfo& type, int bits) {
  const bool is_word = type.kind == DtypeKind::integer && (type.bits == 8 || type.bits == 32);
  return (is_word && type.id != Dtype::boolean) ||
         (type.kind == DtypeKind::code && type.bits == static_cast<unsigned>(bits));
}

// Error for a type that does not hold codes of so many bits (0: only integers do); `place` opens it, `what` says which.
void check_type(const std::string& place, Dtype dtype, int bits, const std::string& what) {
  if (is_type_of_codes(info(dtype), bits)) return;
  std::string accepted;
  for (const DtypeInfo& type : dtype_table())
    if (is_type_of_codes(type, bits)) add_word(accepted, type.name);
  throw Error(fmt::format("{}: {} is no type of {}; accepted: {}", place, info(dtype).name, what, accepted));
}

struct Converted {
  std::vector<uint8_t> bytes;
  Dtype dtype = Dtype::u8;
  bool row_by_row = false;
  int bits = 8;                 // of a code or a scale; 0 where it has fewer than its place
  std::string what = "scales";  // what errors call the elements
};

Converted convert(const ConvertOptions& o, const RawTensor& tensor, int64_t rows, int64_t cols) {
  using namespace golden;
  const std::vector<uint8_t> in = {tensor.bytes.begin(), tensor.bytes.end()};
  const std::string place = "convert " + o.in;
  if (!o.nibbles.empty()) {
    FromTo words = from_to(o.nibbles, "");
    const CodeLayoutInfo& to = row_of(code_layout_table, code_layout_of("convert --nibbles", words.to));
    if (words.from.empty()) words.from = to.bits == 6 ? "unpacked" : "low_first";
    const CodeLayoutInfo& from = row_of(code_layout_table, code_layout_of("convert --nibbles", words.from));
    if (from.bits != to.bits && from.bits != 8 && to.bits != 8)
      throw Error(fmt::format("convert --nibbles: {} holds codes of {} bits, {} of {}", from.name, from.bits, to.name,
                              to.bits));
    check_type(place, tensor.dtype, from.bits, fmt::format("codes in layout {}", from.name));
    const std::vector<uint8_t> codes = from_layout(from.id, in, rows, cols, o.in);
    const auto wide = std::find_if(codes.begin(), codes.end(), [&](uint8_t code) { return code >> to.bits != 0; });
    if (wide != codes.end())
      throw Error(fmt::format("{}: code {} at row {}, column {} has more than the {} bits of {}", place, *wide,
                              (wide - codes.begin()) / cols, (wide - codes.begin()) % cols, to.bits, to.name));
    return {to_layout(to.id, codes, rows, cols), to.word_bytes == 4 ? Dtype::u32 : Dtype::u8,
            std::string_view(to.placing.digits).starts_with("r,") && to.placing.row_multiple == 1,
            from.bits < to.bits ? 0 : to.bits,
            fmt::format("{}-bit codes in layout {}", std::min(from.bits, to.bits), to.name)};
  }
  const FromTo words = from_to(o.scale_layout, "linear");
  const ScaleLayout from = scale_layout_of("convert --scale-layout", words.from);
  const ScaleLayout to = scale_layout_of("convert --scale-layout", words.to);
  check_type(place, tensor.dtype, 8, "scales");
  return {to_layout(to, from_layout(from, in, rows, cols, o.in), rows, cols), Dtype::u8, to == ScaleLayout::linear};
}

void run_convert(const ConvertOptions& o) {
  if (o.nibbles.empty() == o.scale_layout.empty())
    throw Error("convert: say either --nibbles FROM:TO (codes) or --scale-layout FROM:TO (scales)");
  const Shape shape = parse_shape("convert --matrix", o.shape);
  if (shape.size() != 2) throw Error("convert --matrix: expected ROWSxCOLS, codes or scales without padding");
  element_count("convert --matrix", shape);
  const auto rows = static_cast<int64_t>(shape[0]), cols = static_cast<int64_t>(shape[1]);
  const RawTensor in = load_raw(o.in, o.input.open_options());
  const Converted made = convert(o, in, rows, cols);
  const Dtype dtype = o.type.empty() ? made.dtype : parse_dtype("convert --type", o.type);
  check_type("convert --type", dtype, made.bits, made.what);
  const unsigned bits = info(dtype).bits;
  if (made.bytes.size() * 8 % bits != 0)
    throw Error(fmt::format("convert --type: {} bytes are no whole number of {}", made.bytes.size(), info(dtype).name));
  const uint64_t count = made.bytes.size() * 8 / bits;
  const bool keeps_rows = made.row_by_row && rows > 0 && count % static_cast<uint64_t>(rows) == 0;
  const Shape stored = keeps_rows ? Shape{shape[0], count / shape[0]} : Shape{count};
  save_tensor(o.out, dtype, stored, made.bytes.data(), o.force);
  print_notes(in.notes);
  const std::string text = shape_text(stored);
  if (o.json)
    print_json({{"out", o.out}, {"dtype", info(dtype).name}, {"shape", stored}, {"bytes", made.bytes.size()}});
  else
    print_fields({{"written", o.out}, {"type", info(dtype).name}, {"shape", text}});
}

}  // namespace

void command_convert(CLI::App& app, Invocation&) {
  auto o = std::make_shared<ConvertOptions>();
  option(app, "IN FILE", o->in, "Codes or scales: .npy, .npz, .safetensors or raw bytes")->required();
  option(app, "-o,--out FILE", o->out, "File to write; its extension says which kind")->required();
  keep_older_names(option(app, "--matrix,--size RxC", o->shape,
                          "Rows and columns of the codes [rows, K] or scales [rows, K/B], without padding")
                       ->required());
  option(app, "--nibbles [FROM:]NIBBLES", o->nibbles,
         "IN holds codes in the order FROM (default low_first; unpacked for FP6)");
  option(app, "--scale-layout [FROM:]LAYOUT", o->scale_layout, "IN holds scales in the order FROM (default linear)");
  option(app, "--type TYPE", o->type,
         "Element type that a .safetensors says: u8, u32, or as wide as the codes that are written: f4_e2m1, f6_e2m3, "
         "f6_e3m2, f8_e4m3, f8_e8m0");
  add_input_options(app, o->input);
  add_force_option(app, o->force);
  add_sync_option(app);
  add_json_option(app, o->json);
  app.callback([o] { run_convert(*o); });
  set_example(app,
              "fp4sim convert out/scales.npy --matrix 256x32 --scale-layout 128x4 --type f8_e4m3 --out s.safetensors\n"
              "  fp4sim convert out/codes.npy --matrix 256x512 --nibbles low_first:marlin_uint32 --out marlin.npy");
}

}  // namespace fp4::tools
