// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <array>

namespace ascope {

int exit_code(const Error& error) {
  switch (error.kind) {
    case ErrorKind::usage:
    case ErrorKind::config:
      return 2;
    case ErrorKind::partial:
      return 3;
    case ErrorKind::not_found:
      return 4;
    case ErrorKind::busy:
      return 5;
    case ErrorKind::conflict:
      return 6;
    case ErrorKind::refused:
      return 7;
    case ErrorKind::corrupt:
      return 8;
    case ErrorKind::backend_unavailable:
      return 9;
    case ErrorKind::store_unavailable:
      return 10;
    case ErrorKind::denied:
      return 11;
    case ErrorKind::incomplete:
      return 12;
    case ErrorKind::unsupported:
      return 13;
    case ErrorKind::timeout:
      return 14;
    case ErrorKind::io:
      return 15;
    case ErrorKind::cancelled:
      return 128 + error.signal;
    case ErrorKind::internal:
      return 70;
  }
  return 70;
}

std::span<const ExitCodeText> exit_code_texts() {
  static constexpr std::array<ExitCodeText, 22> kTexts{{
      {"0", "done; same; healthy"},
      {"1", "differs (diff, project status), unhealthy (doctor); never a failure"},
      {"2", "usage or profile error"},
      {"3", "partial success: several targets, some failed"},
      {"4", "no such slot, snapshot or sandbox"},
      {"5", "lease busy, or waiting for it timed out"},
      {"6", "lease lost, the state changed under us, or it exists already: nothing was overwritten"},
      {"7", "branch refused (--expect, --no-cold), or work would be lost"},
      {"8", "integrity check failed"},
      {"9", "backend unreachable or failing"},
      {"10", "store unreachable or failing"},
      {"11", "not authorised"},
      {"12", "restore incomplete"},
      {"13", "this backend or store cannot do that"},
      {"14", "a deadline passed"},
      {"15", "this machine: disk full, file not writable, a program missing"},
      {"70", "a defect of ours"},
      {"124", "exec, run, lock run: the command's timeout passed"},
      {"125",
       "exec, run, lock run: a failure of ours; the code above stands in the error JSON and in "
       "--status-file"},
      {"126", "exec, run, lock run: the command is not executable"},
      {"127", "exec, run, lock run: the command was not found"},
      {"128+n", "ended by signal n"},
  }};
  return kTexts;
}

}  // namespace ascope
