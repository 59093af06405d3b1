#include "src/text/input_file.h"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "src/text/error.h"

namespace fp4 {
namespace {

std::mutex inputs_mutex;
using Inputs = std::map<std::pair<dev_t, ino_t>, bool>;  // whether it may be replaced
std::optional<Inputs> of_command;
thread_local std::optional<Inputs> of_call;

std::optional<Inputs>& own_inputs() { return of_call ? of_call : of_command; }

}  // namespace

void keep_inputs() { of_command.emplace(); }

InputsOfCall::InputsOfCall() { of_call.emplace(); }
InputsOfCall::~InputsOfCall() { of_call.reset(); }

void note_input(const std::string& path, bool may_be_replaced) {
  struct stat status {};
  if (!own_inputs() || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const std::lock_guard lock(inputs_mutex);
  own_inputs()->try_emplace({status.st_dev, status.st_ino}, may_be_replaced);
}

void refuse_input(const std::string& path) {
  struct stat status {};
  if (!own_inputs() || ::stat(path.c_str(), &status) != 0) return;
  const std::lock_guard lock(inputs_mutex);
  const auto found = own_inputs()->find({status.st_dev, status.st_ino});
  if (found != own_inputs()->end() && !found->second)
    throw Error(path + ": is an input of this command, which no output replaces; give another file");
}

}  // namespace fp4
