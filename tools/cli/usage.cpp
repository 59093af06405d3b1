// What the command line accepts beyond CLI11's own rules, and what to say where it does not; see usage.h.
#include "tools/cli/usage.h"

#include <fmt/core.h>

#include <limits>

#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "tools/cli/table_print.h"

namespace {

// What the number that was refused last would have had to be; CLI11 itself says only "Could not convert".
std::string expected_number;

template <class Integer>
bool read_integer(const std::string& text, Integer& value) {
  if (const std::optional<Integer> read = fp4::integer_from_text<Integer>(text)) {
    value = *read;
    return true;
  }
  using Limits = std::numeric_limits<Integer>;
  expected_number = fmt::format("a decimal integer from {} to {}", Limits::min(), Limits::max());
  return false;
}

template <class Float>
bool read_float(const std::string& text, Float& value) {
  char* end = nullptr;
  value = static_cast<Float>(std::strtold(text.c_str(), &end));
  if (!text.empty() && end == text.c_str() + text.size()) return true;
  expected_number = "a number, for example 0.75 or 1e-3";
  return false;
}

}  // namespace

namespace CLI::detail {
bool lexical_cast(const std::string& text, int& value) { return read_integer(text, value); }
bool lexical_cast(const std::string& text, unsigned& value) { return read_integer(text, value); }
bool lexical_cast(const std::string& text, long& value) { return read_integer(text, value); }
bool lexical_cast(const std::string& text, unsigned long& value) { return read_integer(text, value); }
bool lexical_cast(const std::string& text, long long& value) { return read_integer(text, value); }
bool lexical_cast(const std::string& text, unsigned long long& value) { return read_integer(text, value); }
bool lexical_cast(const std::string& text, float& value) { return read_float(text, value); }
bool lexical_cast(const std::string& text, double& value) { return read_float(text, value); }
}  // namespace CLI::detail

namespace fp4::tools {

namespace {

const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// "golden make"; print_error puts the program's name in front.
std::string place_of_command(const CLI::App* command) {
  std::string words;
  for (; command->get_parent() != nullptr; command = command->get_parent())
    words = command->get_name() + (words.empty() ? "" : " ") + words;
  return words;
}

}  // namespace

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->check(
          CLI::Validator([](const std::string& value) { return value.empty() ? "the value is empty" : ""; }, ""));
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) refuse_empty_values(*sub);
}

void refuse_options(const CLI::App& command, std::initializer_list<const char*> options, const std::string& owner) {
  for (const char* option : options)
    if (command.count(option) > 0)
      throw Error(fmt::format("{}: {} belongs to {}", place_of_command(&command), option, owner));
}

void add_table_forms(CLI::App& app) {
  if (app.get_option_no_throw("--json") != nullptr && app.get_option_no_throw("--as") == nullptr) {
    app.add_option_function<std::string>(
           "--as",
           [](const std::string& form) {
             set_table_form(static_cast<TableForm>(accepted_index("--as", form, {"text", "markdown", "csv"})));
           },
           "How tables are printed (default text); other lines stay")
        ->type_name("text|markdown|csv")
        ->trigger_on_parse();
  }
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) add_table_forms(*sub);
}

// "--tokens NUMBER (Tokens to train on)"; positional ones by their name.
std::string text_of_missing(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  std::string text = !names.empty() && !option.get_positional() ? "--" + names.front() : option.get_name();
  if (const std::string type = option.get_type_name(); !type.empty() && !option.get_positional()) text += " " + type;
  return option.get_description().empty() ? text : text + " (" + option.get_description() + ")";
}

// All that is missing at once, and a whole command to copy.
std::string missing_options(const CLI::App& command) {
  std::string text, example = command.get_footer();
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0) add_word(text, text_of_missing(*option), "; ");
  constexpr std::string_view head = "Example:\n  ";
  if (!example.starts_with(head)) return text;
  example.erase(0, head.size());
  return text + ". Example: " + example.substr(0, example.find('\n'));
}

// CLI11 reports a word that it cannot place only as "not expected"; say what would have been understood.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = deepest(&app);
  std::string place = place_of_command(at);
  if (place.empty()) place = "command";
  if (error.get_name() == "ConversionError" && !expected_number.empty())
    return place + ": " + error.what() + "; expected " + expected_number;
  if (error.get_name() == "RequiredError")
    if (const std::string missing = missing_options(*at); !missing.empty()) return place + ": missing: " + missing;
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty() || rest.front().empty()) return place + ": " + error.what();
  const std::string word = rest.front().substr(0, rest.front().find('='));
  if (word.front() == '-') return unknown_word(place + ": option", word, option_names(*at)).what();
  std::vector<std::string> names;
  for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  if (!names.empty()) return unknown_word(place, word, names).what();
  return place + ": unexpected word '" + word + "'; `fp4sim " + place + " --help` shows the usage";
}

}  // namespace fp4::tools
