// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/signals.h"
#include "core/base/fd.h"
#include "core/base/op_context.h"

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

int fail(App& app, const Command* command, const Error& error) {
  const int code = exit_code(error);
  app.out().error(error, code);
  app.write_status_error(error, code);
  if (runs_a_command(command)) {
    return error.kind == ErrorKind::cancelled ? code : kExitOurFailure;
  }
  return code;
}

// A usage error before there are arguments: the format is not known yet, so it is looked for by hand.
int fail_early(const std::vector<std::string>& words, const Error& error) {
  Output out;
  bool has_argv_command = false;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const bool json =
        words[i] == "-ojson" || words[i] == "--output=json" ||
        ((words[i] == "-o" || words[i] == "--output") && i + 1 < words.size() && words[i + 1] == "json");
    if (json) {
      out.format = OutputFormat::json;
    }
    has_argv_command = has_argv_command || words[i] == "exec" || words[i] == "run";
  }
  const int code = exit_code(error);
  out.error(error, code);
  return has_argv_command ? kExitOurFailure : code;
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
    return run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& e) {
    std::fprintf(stderr,
                 "ascope-sandbox: error: %s\nhint: this is a defect of ascope-sandbox; please report it\n",
                 e.what());
    return 70;
  }
}
