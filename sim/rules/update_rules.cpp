// See update_rules.h.
#include "sim/rules/update_rules.h"

#include "fp4/presets.h"
#include "src/arith/spec_text.h"

namespace fp4::sim {

namespace {

const std::vector<std::string> moment_words = {"fp32", "8bit", "4bit"};
const std::vector<std::string> weight_words = {"fp32", "bf16"};

std::vector<std::string> preset_words() {
  std::vector<std::string> words;
  for (const Preset& p : preset_table) words.emplace_back(p.name);
  return words;
}

}  // namespace

const std::vector<std::string>& optimizer_words() {
  static const std::vector<std::string> words = {"adam", "adamw", "muon", "sgd", "stable_spam"};
  return words;
}

Schema optimizer_schema() {
  return {
      {"optimizer", "adamw", "update rule", optimizer_words()},
      {"lr", 1e-3, "learning rate", {}, 0, 1e3},
      {"schedule", "cosine", "learning rate after the warm-up", {"cosine", "linear", "constant"}},
      {"final_lr", 0.1, "last learning rate as a share of lr", {}, 0, 1},
      {"warmup", 0, "steps of linear warm-up", {}, 0, 1e9},
      {"beta1", 0.9, "decay of the first moment", {}, 0, 1},
      {"beta2", 0.95, "decay of the second moment", {}, 0, 1},
      {"eps", 1e-8, "added to the root of the second moment", {}, 0, 1},
      {"weight_decay", 0.0, "decoupled weight decay (sgd: L2)", {}, 0, 1e3},
      {"momentum", 0.0, "of sgd", {}, 0, 1},
      {"clip", 0.0, "largest global gradient norm, 0: no clipping", {}, 0, 1e9},
  };
}

void states_from(const JsonReader& from, UpdateRules& rules) {
  JsonReader given = from;
  if (const auto moments = given.find("moments", {"of adam, adamw, stable_spam and muon: 8 bits in blocks of 256, 4 in "
                                                  "blocks of 128",
                                                  "fp32", "bitsandbytes, torchao"}))
    rules.moments = static_cast<Moments>(moments->word(moment_words));
  if (const auto weights =
          given.find("weights", {"master weights; bf16: rounded stochastically after each update", "fp32", "torchao"}))
    rules.bf16_weights = weights->word(weight_words) == 1;
  given.finish();
}

void muon_from(const JsonReader& from, UpdateRules& rules) {
  JsonReader given = from;
  if (const auto momentum = given.find("momentum", {"of the gradients", 0.95}))
    rules.momentum = static_cast<float>(momentum->number(0, 0.999999));
  if (const auto iterations = given.find("iterations", {"of Newton and Schulz", rules.iterations}))
    rules.iterations = static_cast<int>(iterations->integer(1, 100));
  if (const auto products = given.find("products", {"format of the operands of their products, a preset", "bf16"})) {
    const std::vector<std::string> words = preset_words();
    rules.products = words[products->word(words)];
  }
  given.finish();
}

Json states_to(const UpdateRules& rules) {
  return {{"moments", moment_words[static_cast<size_t>(rules.moments)]}, {"weights", weight_words[rules.bf16_weights]}};
}

Json muon_to(const UpdateRules& rules) {
  return {{"momentum", json_number(rules.momentum)}, {"iterations", rules.iterations}, {"products", rules.products}};
}

}  // namespace fp4::sim
