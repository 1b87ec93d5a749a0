// SPDX-License-Identifier: Apache-2.0
#include "core/projection/git.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/process.h"
#include "core/lease/local_lock.h"
#include "core/projection/skills.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ascope {

namespace {

constexpr Millis kFetchTimeout{600'000};
constexpr std::string_view kAllowed = "https:ssh:file:git";

// The part between "://" and the next '/', and in it what stands before the last '@'.
struct Authority {
  std::size_t begin = std::string::npos;
  std::size_t at = std::string::npos;
  std::size_t end = 0;
};

Authority find_authority(const std::string& url) {
  Authority found;
  const auto scheme = url.find("://");
  if (scheme == std::string::npos) {
    return found;
  }
  found.begin = scheme + 3;
  found.end = std::min(url.find_first_of("/?#", found.begin), url.size());
  const auto at = url.rfind('@', found.end == 0 ? 0 : found.end - 1);
  if (at != std::string::npos && at >= found.begin && at < found.end) {
    found.at = at;
  }
  return found;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      if (auto byte = from_hex(text.substr(i + 1, 2)); byte) {
        out += *byte;
        i += 2;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

// User and password of an https URL, as a header that travels in the environment: a command line can be read
// by everybody on the host.
void add_credentials(const std::string& url, ProgramCall& call) {
  const Authority found = find_authority(url);
  if (!url.starts_with("https://") || found.at == std::string::npos) {
    return;
  }
  const std::string user_info = url.substr(found.begin, found.at - found.begin);
  const std::string host = url.substr(found.at + 1, found.end - found.at - 1);
  call.set_env["GIT_CONFIG_COUNT"] = "1";
  call.set_env["GIT_CONFIG_KEY_0"] = "http.https://" + host + "/.extraHeader";
  call.set_env["GIT_CONFIG_VALUE_0"] = "Authorization: Basic " + to_base64(percent_decode(user_info));
}

Result<ProgramCall> git_call(const std::string& cache_dir, std::vector<std::string> args) {
  const std::string home = cache_dir + "/git/home";
  ASCOPE_TRY(make_dirs(home));
  ProgramCall call;
  call.argv = {"git",
               "-c",
               "core.hooksPath=/dev/null",
               "-c",
               "core.fsmonitor=false",
               "-c",
               "core.protectHFS=true",
               "-c",
               "core.protectNTFS=true",
               "-c",
               "core.autocrlf=false",
               "-c",
               "submodule.recurse=false",
               "-c",
               "fetch.recurseSubmodules=false",
               "-c",
               "fetch.fsckObjects=true",
               "-c",
               "gc.auto=0",
               "-c",
               "maintenance.auto=false",
               "-c",
               "init.defaultBranch=main",
               "-c",
               "advice.detachedHead=false",
               "-c",
               "credential.helper="};
  call.argv.insert(call.argv.end(), std::make_move_iterator(args.begin()),
                   std::make_move_iterator(args.end()));
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string_view text = *item;
    if (text.starts_with("GIT_") || text.starts_with("XDG_") || text.starts_with("SSH_ASKPASS")) {
      call.unset_env.emplace_back(text.substr(0, text.find('=')));
    }
  }
  call.set_env = {{"HOME", home},
                  {"LC_ALL", "C"},
                  {"GIT_CONFIG_NOSYSTEM", "1"},
                  {"GIT_CONFIG_GLOBAL", "/dev/null"},
                  {"GIT_ATTR_NOSYSTEM", "1"},
                  {"GIT_TERMINAL_PROMPT", "0"},
                  {"GIT_ASKPASS", "/bin/false"},
                  {"GIT_ALLOW_PROTOCOL", std::string(kAllowed)},
                  {"GIT_HTTP_LOW_SPEED_LIMIT", "1"},
                  {"GIT_HTTP_LOW_SPEED_TIME", "60"},
                  {"GIT_LFS_SKIP_SMUDGE", "1"},
                  {"GIT_OPTIONAL_LOCKS", "0"},
                  {"GIT_SSH_COMMAND", "ssh -oBatchMode=yes"}};
  call.cwd = home;
  return call;
}

// The last line of what git said, without what must not be shown.
std::string reason_of(const ProgramOutcome& outcome, const std::string& url) {
  std::string text = outcome.err;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.pop_back();
  }
  if (const auto fatal = text.rfind("fatal: "); fatal != std::string::npos) {
    text = text.substr(fatal + 7);
  }
  text = text.substr(0, std::min(text.find('\n'), std::size_t{300}));
  const Authority found = find_authority(url);
  if (found.at != std::string::npos) {
    const std::string hidden = url.substr(found.begin, found.at - found.begin + 1);
    for (auto at = text.find(hidden); at != std::string::npos; at = text.find(hidden)) {
      text.erase(at, hidden.size());
    }
  }
  return text;
}

Result<std::string> run_git(const OpContext& ctx, const ProgramCall& call, const std::string& url,
                            const std::string& what) {
  ASCOPE_TRY_ASSIGN(ProgramOutcome outcome, run_program(ctx, call));
  if (!outcome.succeeded()) {
    return make_error(ErrorKind::io, what + ": " + reason_of(outcome, url));
  }
  while (!outcome.out.empty() && outcome.out.back() == '\n') {
    outcome.out.pop_back();
  }
  return std::move(outcome.out);
}

Result<void> check_url(const std::string& url) {
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorKind::config, "git URL '" + git_url_without_credentials(url) + "' " + why,
                      "use https://, ssh://, git:// or file://");
  };
  if (url.empty() || url.front() == '-') {
    return refuse("is not a URL");
  }
  if (std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
    return refuse("holds a control byte");
  }
  const auto scheme = url.find("://");
  if (scheme == std::string::npos) {
    // Else "HOST:PATH" over SSH, or a path. "ext::…" and its like name a helper program.
    return url.find("::") != std::string::npos ? refuse("names a transport that is not allowed") : ok();
  }
  const std::string name = url.substr(0, scheme);
  for (const char* allowed : {"https", "ssh", "file", "git"}) {
    if (name == allowed) {
      const auto host = scheme + 3;
      return host < url.size() && url[host] == '-' ? refuse("has no host") : ok();
    }
  }
  return refuse("names a transport that is not allowed");
}

bool is_full_id(const std::string& ref) {
  return (ref.size() == 40 || ref.size() == 64) && std::all_of(ref.begin(), ref.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<void> check_ref(const std::string& ref) {
  if (!ref.empty() && (ref.front() == '-' || ref.find_first_of(" ~^:?*[\\\t\n") != std::string::npos ||
                       ref.find("..") != std::string::npos || ref.find('\0') != std::string::npos)) {
    return make_error(ErrorKind::config, "git ref '" + ref + "' is not the name of a branch, tag or commit");
  }
  return ok();
}

// One mirror while its lock is held.
class Mirror {
 public:
  Mirror(const OpContext& ctx, const std::string& url, const std::string& cache_dir)
      : ctx_(ctx),
        url_(url),
        cache_dir_(cache_dir),
        path_(cache_dir + "/git/" + sha256_hex(url).substr(0, 40) + ".git") {}

  Result<GitCommit> update(const std::string& ref) {
    ASCOPE_TRY(make_dirs(cache_dir_ + "/git"));
    ASCOPE_TRY_ASSIGN(const auto lock,
                      LocalLock::acquire(ctx_, path_ + ".lock", LockMode::exclusive, kFetchTimeout));
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(path_ + "/HEAD"));
    if (!exists) {
      ASCOPE_TRY(git({"init", "--quiet", "--bare", "--template=", path_}, "making a mirror"));
    }
    GitCommit result;
    result.mirror = path_;
    if (is_full_id(ref)) {
      if (auto found = resolve(ref); found) {
        result.commit = std::move(*found);
        return result;  // a commit never changes: nothing to ask
      }
    }
    // What this ref was when it was last fetched, beside what the remote's own refs are now.
    const std::string last = "refs/ascope/" + sha256_hex(ref).substr(0, 40);
    auto fetched = fetch(ref);
    if (!fetched) {
      auto before = resolve(last);
      if (!before || fetched.error().kind == ErrorKind::cancelled ||
          fetched.error().kind == ErrorKind::timeout) {
        return std::move(fetched).error();
      }
      result.commit = std::move(*before);
      result.unreachable = fetched.error().message;
      return result;
    }
    ASCOPE_TRY_ASSIGN(result.branch, branch_of(ref, *fetched));
    const std::string full = !result.branch.empty() ? "refs/heads/" + result.branch
                             : is_full_id(ref)      ? ref
                             : is_head(ref)         ? std::string("refs/ascope/HEAD")
                                                    : "refs/tags/" + ref;
    auto commit = resolve(full);
    if (!commit) {
      return make_error(ErrorKind::not_found, "git repository '" + git_url_without_credentials(url_) +
                                                  "' has no branch, tag or commit '" + ref + "'");
    }
    result.commit = std::move(*commit);
    ASCOPE_TRY(git({"--git-dir=" + path_, "update-ref", last, result.commit}, "noting a commit"));
    return result;
  }

 private:
  static bool is_head(const std::string& ref) { return ref.empty() || ref == "HEAD"; }

  Result<std::string> git(std::vector<std::string> args, const std::string& what) {
    ASCOPE_TRY_ASSIGN(ProgramCall call, git_call(cache_dir_, std::move(args)));
    add_credentials(url_, call);
    return run_git(ctx_.with_timeout(kFetchTimeout), call, url_, what);
  }

  Result<std::string> resolve(const std::string& name) {
    return git(
        {"--git-dir=" + path_, "rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"},
        "resolving '" + name + "'");
  }

  // Fetches; the remote's answer about HEAD where that is asked for, else "".
  Result<std::string> fetch(const std::string& ref) {
    const std::string url = git_url_without_credentials(url_);
    const std::string what = "fetching '" + url + "'";
    std::string head;
    std::vector<std::string> args{"--git-dir=" + path_,
                                  "fetch",
                                  "--quiet",
                                  "--prune",
                                  "--no-tags",
                                  "--no-auto-maintenance",
                                  "--no-write-fetch-head",
                                  "--",
                                  url,
                                  "+refs/heads/*:refs/heads/*",
                                  "+refs/tags/*:refs/tags/*"};
    if (is_head(ref)) {
      ASCOPE_TRY_ASSIGN(head, git({"ls-remote", "--symref", "--", url, "HEAD"}, what));
      if (head.empty()) {
        return make_error(ErrorKind::not_found, "git repository '" + url + "' has no commits");
      }
      args.emplace_back("+HEAD:refs/ascope/HEAD");
    }
    ASCOPE_TRY(git(std::move(args), what));
    return head;
  }

  // The branch that `ref` names, "" if it is a tag or commit.
  Result<std::string> branch_of(const std::string& ref, const std::string& head) {
    if (is_head(ref)) {
      constexpr std::string_view kSymref = "ref: refs/heads/";
      return head.starts_with(kSymref) ? head.substr(kSymref.size(), head.find('\t') - kSymref.size())
                                       : std::string();
    }
    return resolve("refs/heads/" + ref) ? ref : std::string();
  }

  const OpContext& ctx_;
  const std::string& url_;
  const std::string& cache_dir_;
  std::string path_;
};

std::string cache_of(const GitCommit& commit) {
  return std::filesystem::path(commit.mirror).parent_path().parent_path().string();
}

}  // namespace

std::string git_url_without_credentials(const std::string& url) {
  const Authority found = find_authority(url);
  if (found.at == std::string::npos) {
    return url;
  }
  std::string user;
  if (url.starts_with("ssh://")) {
    user = url.substr(found.begin, std::min(url.find(':', found.begin), found.at) - found.begin) + "@";
  }
  return url.substr(0, found.begin) + user + url.substr(found.at + 1);
}

Result<GitCommit> update_mirror(const OpContext& ctx, const std::string& url, const std::string& ref,
                                const std::string& cache_dir) {
  ASCOPE_TRY(check_url(url));
  ASCOPE_TRY(check_ref(ref));
  return Mirror(ctx, url, cache_dir).update(ref);
}

Result<bool> has_folder(const OpContext& ctx, const GitCommit& commit, const std::string& path) {
  ASCOPE_TRY_ASSIGN(ProgramCall call, git_call(cache_of(commit), {"--git-dir=" + commit.mirror, "ls-tree",
                                                                  "-d", "-z", commit.commit, "--", path}));
  ASCOPE_TRY_ASSIGN(const std::string out, run_git(ctx, call, "", "looking for folder '" + path + "'"));
  return !out.empty();
}

Result<void> export_commit(const OpContext& ctx, const GitCommit& commit, const std::string& path,
                           const std::string& folder) {
  ASCOPE_TRY(make_dirs(folder));
  const std::string index = folder + ".index";
  const std::string tree = path.empty() ? commit.commit : commit.commit + ":" + path;
  const auto run = [&](std::vector<std::string> args) -> Result<void> {
    args.insert(args.begin(), {"--git-dir=" + commit.mirror, "--work-tree=" + folder});
    ASCOPE_TRY_ASSIGN(ProgramCall call, git_call(cache_of(commit), std::move(args)));
    call.set_env["GIT_INDEX_FILE"] = index;
    call.cwd = folder;
    ASCOPE_TRY(run_git(ctx, call, "", "reading commit " + commit.commit));
    return ok();
  };
  auto done = run({"read-tree", tree});
  if (done) {
    done = run({"checkout-index", "--all", "--force", "--quiet"});
  }
  ASCOPE_TRY(remove_file(index));
  return done;
}

Result<void> clone_commit(const OpContext& ctx, const GitCommit& commit, const std::string& url,
                          const std::string& folder) {
  ASCOPE_TRY(make_dirs(folder));
  const auto run = [&](std::vector<std::string> args) -> Result<void> {
    ASCOPE_TRY_ASSIGN(ProgramCall call, git_call(cache_of(commit), std::move(args)));
    call.cwd = folder;
    ASCOPE_TRY(run_git(ctx, call, url, "cloning '" + git_url_without_credentials(url) + "'"));
    return ok();
  };
  ASCOPE_TRY(run({"init", "--quiet", "--template=", "."}));
  ASCOPE_TRY(run({"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", "file://" + commit.mirror,
                  "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*",
                  "+" + commit.commit + ":refs/ascope/commit"}));
  ASCOPE_TRY(run({"remote", "add", "origin", git_url_without_credentials(url)}));
  if (commit.branch.empty()) {
    ASCOPE_TRY(run({"checkout", "--quiet", "--detach", commit.commit}));
  } else {
    ASCOPE_TRY(run({"checkout", "--quiet", "-B", commit.branch, commit.commit}));
  }
  return run({"update-ref", "-d", "refs/ascope/commit"});
}

}  // namespace ascope
