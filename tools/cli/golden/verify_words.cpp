#include "tools/cli/golden/verify_words.h"

#include "src/files/tensor_reader.h"
#include "src/text/named_rows.h"
#include "tools/cli/options.h"
#include "tools/cli/tensor/random_words_file.h"

namespace fp4::tools {
namespace {

std::vector<float> load_term(const std::string& path) {
  if (path.empty()) return {};
  FloatTensor tensor = load_floats(path);
  print_notes(tensor.notes);
  return std::move(tensor.values);
}

golden::CaseEpilogue epilogue_of(const VerifyWords& words) {
  golden::CaseEpilogue e;
  e.how = {words.alpha, words.beta, !words.bias.empty()};
  e.output = named_row("verify --output-type", words.output, golden::real_type_table).id;
  e.activation = named_row("verify --activation", words.activation, golden::activation_table).id;
  if (words.beta != 0 && words.c.empty())
    throw Error("verify: --beta needs --c FILE, the matrix that it is the factor of");
  e.c = load_term(words.c);
  e.bias = load_term(words.bias);
  return e;
}

}  // namespace

void say(const VerifyWords& words, VerifyJob& job, golden::Bundle& bundle) {
  const std::vector<uint32_t> random = load_random_words("verify --random-words", words.random_words);
  const golden::CaseEpilogue epilogue = epilogue_of(words);
  for (golden::Case& c : bundle.cases) {
    c.random_words = random;
    if (c.is_gemm)
      c.epilogue = epilogue;
    else
      c.epilogue.output = epilogue.output;
  }
  job.dump.says_nibbles = !words.nibbles.empty();
  job.dump.says_scale_layout = !words.scale_layout.empty();
  if (job.dump.says_nibbles) job.dump.nibbles = golden::code_layout_of("verify --nibbles", words.nibbles);
  if (job.dump.says_scale_layout)
    job.dump.scale_layout = golden::scale_layout_of("verify --scale-layout", words.scale_layout);
  if (!words.tolerance.empty()) job.tolerance = golden::tolerance_from_words("verify --tolerance", words.tolerance);
}

}  // namespace fp4::tools
