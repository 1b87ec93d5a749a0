// SPDX-License-Identifier: Apache-2.0
// doctor --image: what AgentScope's tools need of an image (reference 10.4), tried inside a sandbox of it.
#include <array>

#include <fmt/format.h>

#include "core/base/random.h"
#include "core/engine/doctor.h"

namespace ascope {

namespace {

struct Need {
  std::string_view name;
  std::string_view script;  // succeeds if it is there; empty: `name` is in PATH
  std::string_view breaks;  // what does not work without it
};

// This program needs none of them.
constexpr std::array kNeeds{
    Need{"sh", "exit 0", "every tool of AgentScope's and 'exec -- sh -c …'"},
    Need{"mkdir", "", "writing and uploading files"},
    Need{"dirname", "", "uploading files"},
    Need{"rm", "", "deleting files"},
    Need{"mv", "", "moving files"},
    Need{"test", "", "reading and listing files"},
    Need{"printf", "", "writing files"},
    Need{"sort", "", "listing files"},
    Need{"sed", "", "reading part of a file"},
    Need{"find", "find . -maxdepth 0 -type d", "listing files, glob"},
    Need{"grep", "echo abc > .ascope-probe && grep -rHnF --include=.ascope-probe b .", "searching in files"},
    Need{"stat", "test \"$(stat -c %F .)\" = directory", "listing files"},
    Need{"tar", "tar -cf - . | tar -tf - >/dev/null", "snapshots and projection of AgentScope's own"},
    Need{"base64", "test \"$(printf 'eA==' | base64 -d)\" = x", "uploading and downloading files"},
    Need{"python3", "python3 -c 'import json, sys'", "editing files"},
    Need{"workspace", "echo > .ascope-probe && rm .ascope-probe",
         "everything: the workspace cannot be written"},
};

Result<bool> holds(const OpContext& ctx, Sandbox& sandbox, const Need& need) {
  ExecRequest request;
  request.argv = {"sh", "-c",
                  need.script.empty() ? fmt::format("command -v {}", need.name) : std::string(need.script)};
  request.timeout = Millis(20000);
  request.job = "doctor";
  StringSink out(64U << 10U);
  StringSink err(64U << 10U);
  ASCOPE_TRY_ASSIGN(const ExecOutcome outcome, sandbox.exec(ctx, request, {-1, &out, &err, -1}));
  return outcome.exit_code() == 0;
}

DoctorCheck check(const OpContext& ctx, Sandbox& sandbox, const Need& need) {
  DoctorCheck row;
  row.name = need.name;
  const Millis begin = ctx.clock->boottime();
  auto held = holds(ctx, sandbox, need);
  row.duration = ctx.clock->boottime() - begin;
  if (!held) {
    row.problem = std::move(held).error();
  } else if (!*held) {
    row.problem =
        make_error(ErrorKind::unsupported, fmt::format("the image has no '{}' that will do", need.name),
                   fmt::format("without it these fail: {}", need.breaks));
  }
  return row;
}

}  // namespace

std::vector<DoctorCheck> check_image(EngineServices& services, const OpContext& ctx,
                                     const std::string& image) {
  std::vector<DoctorCheck> rows;
  DoctorCheck& made = rows.emplace_back();
  made.name = "sandbox";
  SlotIds ids;
  ids.agent = "ascope-doctor";
  ids.session = "doctor-" + random_hex(8);
  ids.scope = Scope::session;
  const auto slot = SlotKey::resolve(ids, nullptr);
  SandboxSettings settings = services.profile().settings;
  settings.image = image;
  settings.options.erase("image");
  settings.mounts.clear();
  settings.ports.clear();
  const Millis begin = ctx.clock->boottime();
  auto backend = services.backend();
  auto sandbox = !slot      ? Result<std::unique_ptr<Sandbox>>(slot.error())
                 : !backend ? Result<std::unique_ptr<Sandbox>>(backend.error())
                            : (*backend)->create(ctx, *slot, "doctor", settings, 1);
  made.duration = ctx.clock->boottime() - begin;
  if (!sandbox) {
    made.problem = std::move(sandbox).error();
    return rows;
  }
  made.detail = image;
  for (const Need& need : kNeeds) {
    const bool has_shell = rows.size() < 2 || !rows[1].problem;
    if (has_shell) {
      rows.push_back(check(ctx, **sandbox, need));
    } else {
      DoctorCheck& skipped = rows.emplace_back();
      skipped.name = need.name;
      skipped.skipped = true;
    }
  }
  OpContext after = ctx;
  after.uninterruptible = true;
  DoctorCheck& removed = rows.emplace_back();
  removed.name = "clean up";
  if (auto gone = (*sandbox)->destroy(after, 1); !gone) {
    removed.problem = std::move(gone).error();
  }
  return rows;
}

}  // namespace ascope
