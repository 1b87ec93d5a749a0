// SPDX-License-Identifier: Apache-2.0
#include "core/repository/credentials.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <set>
#include <string>
#include <utility>

namespace ascope {

namespace {

constexpr std::size_t kLookedAtBytes = 256U << 10U;
constexpr std::size_t kBinaryBytes = 8000;
constexpr std::size_t kMaxNamed = 20;  // paths in a refusal

constexpr std::string_view kPrivateKey = "private key";
constexpr std::string_view kEnvironment = "environment file";
constexpr std::string_view kPasswords = "stored passwords";

struct NamedFile {
  std::string_view name;
  std::string_view folder;  // the part before it, if it must be this one
  std::string_view kind;
};
constexpr NamedFile kNamedFiles[] = {
    {".env", "", kEnvironment},
    {".envrc", "", kEnvironment},
    {"id_rsa", "", kPrivateKey},
    {"id_dsa", "", kPrivateKey},
    {"id_ecdsa", "", kPrivateKey},
    {"id_ed25519", "", kPrivateKey},
    {".netrc", "", kPasswords},
    {"_netrc", "", kPasswords},
    {".pgpass", "", kPasswords},
    {".my.cnf", "", kPasswords},
    {".git-credentials", "", kPasswords},
    {".htpasswd", "", kPasswords},
    {"credentials", ".aws", "AWS credentials"},
    {"credentials.db", "gcloud", "Google Cloud credentials"},
    {"application_default_credentials.json", "gcloud", "Google Cloud credentials"},
};
constexpr std::string_view kKeyStores[] = {".kdbx", ".p12", ".pfx", ".jks", ".ppk"};
constexpr std::string_view kSamples[] = {".example", ".sample", ".template", ".dist", ".defaults"};

// A token: `prefix`, then at least `length` letters, digits or bytes of `more`.
struct TokenShape {
  std::string_view prefix;
  std::size_t length;
  std::string_view more;
  std::string_view kind;
};
// From the issuers' own pages on their tokens and from what secret scanners publish.
constexpr TokenShape kTokens[] = {
    {"AKIA", 16, "", "AWS access key"},
    {"ASIA", 16, "", "AWS access key"},
    {"AIza", 35, "-_", "Google API key"},
    {"ghp_", 36, "", "GitHub token"},
    {"gho_", 36, "", "GitHub token"},
    {"ghu_", 36, "", "GitHub token"},
    {"ghs_", 36, "", "GitHub token"},
    {"ghr_", 36, "", "GitHub token"},
    {"github_pat_", 60, "_", "GitHub token"},
    {"glpat-", 20, "-_", "GitLab token"},
    {"xoxb-", 20, "-", "Slack token"},
    {"xoxp-", 20, "-", "Slack token"},
    {"xoxa-", 20, "-", "Slack token"},
    {"xoxs-", 20, "-", "Slack token"},
    {"sk_live_", 24, "", "Stripe key"},
    {"rk_live_", 24, "", "Stripe key"},
    {"sk-ant-", 40, "-_", "API key of a model provider"},
    {"sk-proj-", 40, "-_", "API key of a model provider"},
    {"npm_", 36, "", "npm token"},
    {"pypi-AgE", 50, "-_", "PyPI token"},
    {"hf_", 34, "", "Hugging Face token"},
    {"dop_v1_", 64, "", "DigitalOcean token"},
    {"SG.", 60, "-_.", "SendGrid key"},
    {"LTAI", 16, "", "Alibaba Cloud access key"},
};

constexpr std::string_view kKeyBegin = "-----BEGIN ";
constexpr std::size_t kKeyTitleBytes = 48;  // "ENCRYPTED PRIVATE KEY-----" and the like follow within it

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool is_token(const TokenShape& shape, ByteView content, std::size_t at) {
  if (!content.substr(at).starts_with(shape.prefix) ||
      (at > 0 && (is_alnum(content[at - 1]) || content[at - 1] == '_'))) {
    return false;
  }
  const ByteView rest = content.substr(at + shape.prefix.size());
  const auto end = std::find_if(rest.begin(), rest.end(), [&](char c) {
    return !is_alnum(c) && shape.more.find(c) == std::string_view::npos;
  });
  return static_cast<std::size_t>(end - rest.begin()) >= shape.length;
}

bool is_private_key(ByteView content, std::size_t at) {
  const ByteView rest = content.substr(at);
  if (!rest.starts_with(kKeyBegin)) {
    return false;
  }
  const ByteView title = rest.substr(kKeyBegin.size(), kKeyTitleBytes);
  const ByteView line = title.substr(0, title.find('\n'));
  return line.find("PRIVATE KEY") != ByteView::npos;
}

// Which two bytes may stand at the beginning of a credential or one byte behind it, so that a look at every
// other place misses none.
constexpr std::size_t pair_of(char first, char second) {
  return static_cast<std::size_t>(static_cast<unsigned char>(first)) << 8U |
         static_cast<unsigned char>(second);
}
std::bitset<65536> make_pairs() {
  std::bitset<65536> out;
  const auto add = [&](std::string_view prefix) {
    out.set(pair_of(prefix[0], prefix[1]));
    out.set(pair_of(prefix[1], prefix[2]));
  };
  for (const TokenShape& shape : kTokens) {
    add(shape.prefix);
  }
  add(kKeyBegin);
  return out;
}

// The credential that begins exactly there.
std::optional<std::string_view> credential_at(ByteView content, std::size_t at) {
  if (is_private_key(content, at)) {
    return kPrivateKey;
  }
  for (const TokenShape& shape : kTokens) {
    if (shape.prefix[0] == content[at] && is_token(shape, content, at)) {
      return shape.kind;
    }
  }
  return std::nullopt;
}

// As git tells: a NUL byte near the beginning. Keys and tokens come in text.
bool is_binary(ByteView content) {
  return content.substr(0, kBinaryBytes).find('\0') != ByteView::npos;
}

}  // namespace

std::optional<std::string_view> credential_by_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const std::string_view above = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  const std::string_view folder = above.substr(above.rfind('/') + 1);
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  if (name.starts_with(".env.") && std::none_of(std::begin(kSamples), std::end(kSamples), ends)) {
    return kEnvironment;
  }
  if (std::any_of(std::begin(kKeyStores), std::end(kKeyStores), ends)) {
    return "key store";
  }
  for (const NamedFile& file : kNamedFiles) {
    if (file.name == name && (file.folder.empty() || file.folder == folder)) {
      return file.kind;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> credential_in(ByteView content) {
  static const std::bitset<65536> kPairs = make_pairs();
  if (is_binary(content)) {
    return std::nullopt;
  }
  for (std::size_t at = 0; at + 1 < content.size(); at += 2) {
    if (!kPairs[pair_of(content[at], content[at + 1])]) {
      continue;
    }
    for (std::size_t start = at - (at > 0 ? 1 : 0); start <= at; ++start) {
      if (const auto kind = credential_at(content, start)) {
        return kind;
      }
    }
  }
  return std::nullopt;
}

struct GuardedSource::State {
  TreeSource& inner;
  CredentialRule rule;
  std::vector<TreeNote> notes;
  std::vector<std::string> found;  // with `refuse`
  std::size_t found_count = 0;
  std::set<std::string> left_out;  // targets of hard links
  // What was taken of the present file in advance: its first block, which the source still holds, or copies.
  std::optional<DataBlock> first;
  struct Block {
    std::uint64_t offset;
    std::string bytes;
  };
  std::deque<Block> ahead;
  std::string given;  // what the last block's view shows

  // The kind of credential in the present file, with what was read of it kept for read().
  Result<std::optional<std::string_view>> look(const TreeEntry& entry) {
    if (const auto kind = credential_by_name(entry.path)) {
      return kind;
    }
    ASCOPE_TRY_ASSIGN(auto block, inner.read());
    if (!block || block->bytes.size() >= kLookedAtBytes || block->bytes.size() == entry.size_bytes ||
        is_binary(block->bytes)) {
      first = block;
      return block ? credential_in(block->bytes.substr(0, kLookedAtBytes)) : std::nullopt;
    }
    std::size_t bytes = 0;
    std::string head;
    while (block) {
      bytes += block->bytes.size();
      head.append(block->bytes.substr(0, kLookedAtBytes - std::min(head.size(), kLookedAtBytes)));
      ahead.push_back({block->offset, std::string(block->bytes)});
      if (bytes >= kLookedAtBytes || is_binary(head)) {
        break;
      }
      ASCOPE_TRY_ASSIGN(block, inner.read());
    }
    return credential_in(head);
  }

  // True if the entry stays.
  bool judge(const TreeEntry& entry, std::string_view kind) {
    const bool leaves = rule == CredentialRule::exclude;
    std::string what(kind);
    what += leaves ? ": left out (snapshots.credentials)" : " found";
    if (rule == CredentialRule::refuse) {
      ++found_count;
      if (found.size() < kMaxNamed) {
        found.push_back(entry.path);
      }
    } else {
      notes.push_back({entry.path, std::move(what)});
    }
    if (leaves) {
      left_out.insert(entry.path);
    }
    return !leaves;
  }

  Error refusal() const {
    std::string names;
    for (const std::string& path : found) {
      names += (names.empty() ? "'" : ", '") + path + "'";
    }
    if (found_count > found.size()) {
      names += " and " + std::to_string(found_count - found.size()) + " more";
    }
    return make_error(
        ErrorKind::refused, "credentials lie in the workspace: " + names,
        "remove them, list them in .ascopeignore, or set snapshots.credentials to warn or exclude");
  }
};

GuardedSource::GuardedSource(TreeSource& inner, CredentialRule rule)
    : state_(new State{inner, rule, {}, {}, 0, {}, {}, {}, {}}) {}
GuardedSource::~GuardedSource() = default;

const std::vector<TreeNote>& GuardedSource::notes() const {
  return state_->notes;
}

Result<bool> GuardedSource::next(TreeEntry& entry) {
  State& state = *state_;
  while (true) {
    state.first.reset();
    state.ahead.clear();
    ASCOPE_TRY_ASSIGN(const bool more, state.inner.next(entry));
    if (!more) {
      return state.found_count == 0 ? Result<bool>(false) : Result<bool>(state.refusal());
    }
    if (entry.type == EntryType::hardlink && state.left_out.contains(entry.link_target)) {
      state.notes.push_back({entry.path, "a link to what was left out"});
      continue;
    }
    if (state.rule == CredentialRule::ignore || entry.type != EntryType::file || entry.size_bytes == 0) {
      return true;
    }
    ASCOPE_TRY_ASSIGN(const auto kind, state.look(entry));
    if (!kind || state.judge(entry, *kind)) {
      return true;
    }
  }
}

Result<std::optional<DataBlock>> GuardedSource::read() {
  State& state = *state_;
  if (state.first) {
    return std::exchange(state.first, std::nullopt);
  }
  if (state.ahead.empty()) {
    return state.inner.read();
  }
  const std::uint64_t offset = state.ahead.front().offset;
  state.given = std::move(state.ahead.front().bytes);
  state.ahead.pop_front();
  return std::optional<DataBlock>(DataBlock{offset, state.given});
}

}  // namespace ascope
