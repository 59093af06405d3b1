// `fp4sim completion bash|zsh|fish|man`: completion scripts and the man page, made from the table of commands and
// options itself so that they cannot fall behind it. Values of axis options are asked of `fp4sim list TOPIC --words`
// when the user presses Tab: the topic follows from the option's type name (--accumulator ACCUMULATOR -> accumulators).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "src/text/named_rows.h"
#include "src/text/version.h"
#include "tools/cli/command.h"

namespace fp4::tools {
namespace {

// Type name of an option -> topic of `fp4sim list`; FILE and DIR complete paths.
const std::map<std::string, std::string>& topic_of_type() {
  static const std::map<std::string, std::string> map = {
      {"SPEC", "presets"},        {"ACCUMULATOR", "accumulators"}, {"BACKEND", "backends"}, {"RECIPE", "recipes"},
      {"TASK", "tasks"},          {"HARDWARE", "hardware"},        {"MODEL", "models"},     {"SUITE", "suites"},
      {"GRID", "grids"},          {"FORMAT", "formats"},           {"NAME", "names"},       {"TOPIC", "topics"},
      {"WORD", "words"},          {"FIELD=VALUE", "fields"},       {"AXIS", "axes"},        {"NIBBLES", "nibbles"},
      {"LAYOUT", "scale-layouts"}};
  return map;
}

std::vector<const CLI::App*> visible_subcommands(const CLI::App& app) {
  auto subs = app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  return {subs.begin(), subs.end()};
}

std::vector<const CLI::Option*> visible_options(const CLI::App& app, bool positional) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty() && option->get_positional() == positional) options.push_back(option);
  return options;
}

std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "-" + option.get_snames().front() : "--" + option.get_lnames().front();
}

// "--recipe|-r", as a shell's `case` reads it.
std::string any_name(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : "|--") + name;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : "|-") + name;
  return names;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0 && option.get_type_size() != 0;
}

// "presets" for a topic, "@file" or "@dir" for paths, "=a b c" for a closed set of words, "" for anything else.
std::string value_kind(const CLI::Option& option) {
  std::string type = option.get_type_name();
  if (type.ends_with(",..")) type.resize(type.size() - 3);  // the first of a list
  if (constexpr std::string_view from = "[FROM:]"; type.starts_with(from)) type.erase(0, from.size());
  if (type.ends_with("=VALUE") && type.starts_with("AXIS")) type = "AXIS";
  if (const auto found = topic_of_type().find(type); found != topic_of_type().end()) return found->second;
  if (type.starts_with("FILE")) return "@file";
  if (type.starts_with("DIR")) return "@dir";
  if (type.find('|') != std::string::npos) {
    std::string words = "=" + type;
    std::replace(words.begin(), words.end(), '|', ' ');
    return words;
  }
  return "";
}

// Calls visit(path, app) for the program and every command below it, path being "" or "golden make".
template <typename Visit>
void walk(const CLI::App& app, const std::string& path, const Visit& visit) {
  visit(path, app);
  for (const CLI::App* sub : visible_subcommands(app))
    walk(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), visit);
}

// One line per command path: words that may follow, and per option what its value is. Read by the shell functions
// below.
struct Entry {
  std::string path, words, values, positional;
};

std::vector<Entry> entries(const CLI::App& root) {
  std::vector<Entry> all;
  walk(root, "", [&](const std::string& path, const CLI::App& app) {
    Entry entry{path, "", "", ""};
    for (const CLI::App* sub : visible_subcommands(app)) entry.words += sub->get_name() + " ";
    for (const CLI::Option* option : visible_options(app, false)) {
      entry.words += long_name(*option) + " ";
      if (takes_value(*option))
        entry.values += fmt::format("      {}) kind='{}' ;;\n", any_name(*option), value_kind(*option));
    }
    for (const CLI::Option* option : visible_options(app, true)) entry.positional = value_kind(*option);
    const std::string above = path.substr(0, path.size() - std::min(path.size(), app.get_name().size()));
    for (const std::string& alias : app.get_aliases())
      all.push_back({above + alias, entry.words, entry.values, entry.positional});
    all.push_back(entry);
  });
  return all;
}

// The function shared by bash and zsh (which runs it through bashcompinit, where path and words are special names):
// $typed is the command so far.
std::string shell_function(const CLI::App& root) {
  std::string paths, words, values;
  for (const Entry& entry : entries(root)) {
    if (!entry.path.empty()) paths += "'" + entry.path + "'|";
    words += fmt::format("    '{}') choices='{}'; positional='{}' ;;\n", entry.path, entry.words, entry.positional);
    if (!entry.values.empty())
      values += fmt::format("    '{}') case $previous in\n{}      esac ;;\n", entry.path, entry.values);
  }
  if (!paths.empty()) paths.pop_back();
  return fmt::format(R"sh(_fp4sim_words() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local typed='' word choices='' positional='' kind='-' before=''
  local -a sweep=()
  for word in "${{COMP_WORDS[@]:1:$((COMP_CWORD-1))}}"; do
    case "${{typed:+$typed }}$word" in
      {paths}) typed="${{typed:+$typed }}$word" ;;
    esac
  done
  case $typed in
{words}  esac
  case $typed in
{values}  esac
  COMPREPLY=()
  if [[ $kind == - && $current != -* && -n $positional ]]; then kind=$positional; fi
  if [[ $kind == [=a-z]* && $current == *,* ]]; then
    before=${{current%,*}},
    current=${{current##*,}}
  fi
  case $kind in
    -) COMPREPLY=($(compgen -W "$choices" -- "$current")) ;;
    @file) COMPREPLY=($(compgen -f -- "$current")) ;;
    @dir) COMPREPLY=($(compgen -d -- "$current")) ;;
    =*) COMPREPLY=($(compgen -P "$before" -W "${{kind#=}}" -- "$current")) ;;
    ?*)
      # The axes of the sweep whose folder is on the line.
      if [[ $kind == axes ]]; then
        for word in "${{COMP_WORDS[@]:1:$((COMP_CWORD-1))}}"; do [[ -d $word ]] && sweep=(--sweep "$word"); done
      fi
      COMPREPLY=($(compgen -P "$before" -W "$(fp4sim list "$kind" "${{sweep[@]}}" --words 2>/dev/null)" -- "$current")) ;;
  esac
}}
)sh",
                     fmt::arg("paths", paths), fmt::arg("words", words), fmt::arg("values", values));
}

std::string bash_script(const CLI::App& root) {
  return "# Completion of fp4sim for bash; made by `fp4sim completion bash`.\n" + shell_function(root) +
         "complete -o bashdefault -o default -F _fp4sim_words fp4sim\n";
}

// Found in fpath the file is the body of the completion function _fp4sim; sourced it registers itself.
std::string zsh_script(const CLI::App& root) {
  return "#compdef fp4sim\n# Completion of fp4sim for zsh; made by `fp4sim completion zsh`.\n"
         "autoload -Uz bashcompinit && bashcompinit\n" +
         shell_function(root) +
         "if [[ ${funcstack[1]} == _fp4sim ]]; then\n  _bash_complete -o default -F _fp4sim_words\n"
         "else\n  complete -o default -F _fp4sim_words fp4sim\nfi\n";
}

std::string fish_quoted(std::string text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "\\'" : c == '\\' ? "\\\\" : std::string(1, c);
  return out + "'";
}

std::string fish_script(const CLI::App& root) {
  std::string out = "# Completion of fp4sim for fish; made by `fp4sim completion fish`.\ncomplete -c fp4sim -f\n";
  walk(root, "", [&](const std::string& path, const CLI::App& app) {
    // Every word of the path must have been typed, and at a branch none of the commands below it.
    std::string condition;
    std::string rest = path;
    for (std::size_t space; !rest.empty(); rest = space == std::string::npos ? "" : rest.substr(space + 1)) {
      space = rest.find(' ');
      condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + rest.substr(0, space));
    }
    std::string below;
    for (const CLI::App* sub : visible_subcommands(app)) below += " " + sub->get_name();
    if (!below.empty()) {
      const std::string none = path.empty() ? "__fish_use_subcommand" : "not __fish_seen_subcommand_from" + below;
      const std::string here = condition.empty() ? none : condition + "; and " + none;
      for (const CLI::App* sub : visible_subcommands(app))
        out += fmt::format("complete -c fp4sim -n {} -a {} -d {}\n", fish_quoted(here), sub->get_name(),
                           fish_quoted(sub->get_description()));
    }
    for (bool positional : {false, true})
      for (const CLI::Option* option : visible_options(app, positional)) {
        const std::string kind = positional || takes_value(*option) ? value_kind(*option) : "-";
        std::string values;
        if (kind == "@file" || kind == "@dir")
          values = positional ? " -F" : " -r -F";
        else if (kind.starts_with("="))
          values = (positional ? " -a " : " -x -a ") + fish_quoted(kind.substr(1));
        else if (!kind.empty() && kind != "-")
          values = (positional ? " -a " : " -x -a ") + fish_quoted("(fp4sim list " + kind + " --words)");
        else if (kind.empty() && !positional)
          values = " -x";
        if (positional && values.empty()) continue;
        out += "complete -c fp4sim" + (condition.empty() ? "" : " -n " + fish_quoted(condition)) +
               (positional || option->get_snames().empty() ? "" : " -s " + option->get_snames().front()) +
               (positional || option->get_lnames().empty() ? "" : " -l " + option->get_lnames().front()) + values +
               (positional ? "" : " -d " + fish_quoted(option->get_description())) + "\n";
      }
  });
  return out;
}

// groff: a backslash and a leading dot or quote are commands, a plain minus would become a hyphen.
std::string groff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n')) out += "\\&";
    out += text[i] == '\\' ? "\\e" : text[i] == '-' ? "\\-" : std::string(1, text[i]);
  }
  return out;
}

std::string man_page(const CLI::App& root) {
  std::string out = std::string(".TH FP4SIM 1 \"\" \"fp4sim ") + version() +
                    "\" \"User commands\"\n.SH NAME\nfp4sim \\- " + groff(root.get_description()) +
                    "\n.SH SYNOPSIS\n.B fp4sim\nCOMMAND [options]\n.SH COMMANDS\n";
  walk(root, "", [&](const std::string& path, const CLI::App& app) {
    if (path.empty()) return;
    out += ".SS fp4sim " + groff(path);
    for (const CLI::Option* option : visible_options(app, true)) out += " " + groff(option->get_name());
    out += "\n" + groff(app.get_description()) + "\n";
    for (const CLI::Option* option : visible_options(app, false)) {
      if (long_name(*option) == "--help") continue;
      out += ".TP\n.B " + groff(long_name(*option));
      if (takes_value(*option)) out += " \\fI" + groff(option->get_type_name()) + "\\fR";
      out += "\n" + groff(option->get_description()) + "\n";
    }
    if (!app.get_footer().empty()) out += ".PP\n.nf\n" + groff(app.get_footer()) + "\n.fi\n";
  });
  out +=
      ".SH EXIT STATUS\n0: fine. 1: the work failed or a comparison mismatched. 2: wrong usage or bad input; nothing "
      "was written.\n";
  return out;
}

}  // namespace

void command_completion(CLI::App& app, Invocation&) {
  static std::string what;
  option(app, "what bash|zsh|fish|man", what, "bash, zsh, fish, or man for the man page")->required();
  app.callback([&app] {
    constexpr std::string (*made[])(const CLI::App&) = {bash_script, zsh_script, fish_script, man_page};
    const size_t which = accepted_index("completion", what, {"bash", "zsh", "fish", "man"});
    fmt::print("{}", made[which](*app.get_parent()));
  });
  set_example(app, "fp4sim completion bash > ~/.local/share/bash-completion/completions/fp4sim");
}

}  // namespace fp4::tools
