// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/signals.h"
#include "core/base/fd.h"
#include "core/base/op_context.h"
#include "core/base/reserve.h"

namespace {

using namespace ascope;  // NOLINT(google-build-using-namespace)

// Descriptors 0, 1 and 2 must be open: a file of ours must never land there.
void open_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) {
      ::_exit(15);
    }
  }
}

bool runs_a_command(const Command* command) {
  return command != nullptr && command->takes_argv;
}

int fail(App& app, const Command* command, Error error) {
  const int code = exit_code(error);
  if (error.kind == ErrorKind::usage && command != nullptr) {
    error = std::move(error).with_hint(
        fmt::format("'ascope-sandbox {} --help' shows how it is used", command->name));
  } else if (error.kind == ErrorKind::denied) {
    error = std::move(error).with_hint("look at its owner and mode (ls -l), and at who you are (id)");
  } else if (error.kind == ErrorKind::io) {
    error = std::move(error).with_hint("look at that path (ls -ld) and at the space on its disk (df)");
  }
  app.out().error(error, code);
  app.write_status_error(error, code);
  if (runs_a_command(command)) {
    return error.kind == ErrorKind::cancelled ? code : kExitOurFailure;
  }
  return code;
}

// The value of a global option, looked for by hand: "--name V", "--name=V", "-nV".
std::optional<std::string> find_value(const std::vector<std::string>& words, std::string_view name,
                                      char letter) {
  const std::string full = "--" + std::string(name);
  const std::string brief = std::string("-") + letter;
  std::optional<std::string> found;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word == full || (letter != '\0' && word == brief)) {
      found = i + 1 < words.size() ? std::optional(words[i + 1]) : std::nullopt;
    } else if (word.starts_with(full + "=")) {
      found = word.substr(full.size() + 1);
    } else if (letter != '\0' && word.starts_with(brief)) {
      found = word.substr(brief.size());
    }
  }
  return found;
}

// An error before there are arguments: what it needs of the command line is looked for in its words.
int fail_early(const std::vector<std::string>& words, const Error& error) {
  Args args;
  if (const auto format = find_value(words, "output", 'o')) {
    args.values["output"] = {*format};
  }
  if (const auto file = find_value(words, "status-file", '\0'); file && !file->empty()) {
    args.values["status-file"] = {*file};
  }
  App app(args);
  static_cast<void>(app.setup().has_value());  // without a working directory there is no status file
  return fail(app, named_command(words), error);
}

int show(const std::string& text) {
  return write_all(STDOUT_FILENO, text).has_value() ? 0 : 15;
}

int run(const std::vector<std::string>& words) {
  auto invocation = parse_command_line(words);
  if (!invocation) {
    return fail_early(words, invocation.error());
  }
  if (invocation->version) {
    return show(fmt::format("ascope-sandbox {}\n", ASCOPE_VERSION));
  }
  if (invocation->help) {
    return show(help_text(invocation->command));
  }
  App app(invocation->args);
  if (auto setup = app.setup(); !setup) {
    return fail(app, invocation->command, setup.error());
  }
  use_reserve(app.state_dir(), invocation->command->frees_space ? kRoomToFree : kRoomToLook);
  auto result = invocation->command->run(app, invocation->args);
  if (!result) {
    static_cast<void>(app.out().flush().has_value());  // the error that follows matters more
    return fail(app, invocation->command, result.error());
  }
  if (auto flushed = app.out().flush(); !flushed) {
    return fail(app, invocation->command, flushed.error());
  }
  return *result;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  install_signal_handlers();
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    try {
      return run(words);
    } catch (const std::exception& e) {
      return fail_early(words, make_error(ErrorKind::internal, e.what(),
                                          "this is a defect of ascope-sandbox; please report it"));
    }
  } catch (const std::exception& e) {  // out of memory
    std::fprintf(stderr,
                 "ascope-sandbox: error: %s\nhint: this is a defect of ascope-sandbox; please report it\n",
                 e.what());
    return 70;
  }
}
