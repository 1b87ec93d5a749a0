// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/root.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "core/repository/chunks/pack.h"
#include "core/repository/chunks/path_order.h"
#include "core/repository/chunks/sealed.h"
#include "core/tree/tree.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kPageFields = 9;
constexpr std::size_t kHexChars = 16;

Error bad(std::string_view why) {
  return make_error(ErrorKind::corrupt, "has a damaged root: " + std::string(why));
}

Json pages_json(const std::vector<PageRef>& pages) {
  Json out = Json::array();
  for (const PageRef& page : pages) {
    const ChunkRef& ref = page.chunk;
    out.push_back(
        Json::array({bytes_json(page.first), ref.pack, ref.frame.offset, ref.frame.stored, ref.frame.raw,
                     static_cast<unsigned>(ref.frame.codec), ref.at, ref.raw, to_hex(ref.id.view())}));
  }
  return out;
}

Result<std::uint64_t> number(const Json& value, std::uint64_t limit) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > limit) {
    return bad("a number is out of its range");
  }
  return value.get<std::uint64_t>();
}

Result<std::uint64_t> member_number(const Json& object, std::string_view key,
                                    std::uint64_t limit = INT64_MAX) {
  const auto found = object.find(key);
  return found == object.end() ? Result<std::uint64_t>(bad("'" + std::string(key) + "' is missing"))
                               : number(*found, limit);
}

Result<std::uint32_t> field(const Json& page, std::size_t index, std::uint64_t limit) {
  ASCOPE_TRY_ASSIGN(const std::uint64_t value, number(page[index], limit));
  return static_cast<std::uint32_t>(value);
}

Result<PageRef> parse_page(const Json& json, const std::vector<PackUse>& packs) {
  if (!json.is_array() || json.size() != kPageFields || !json[kPageFields - 1].is_string() || packs.empty()) {
    return bad("a page is not described as it should be");
  }
  PageRef out;
  ChunkRef& ref = out.chunk;
  ASCOPE_TRY_ASSIGN(out.first, json_bytes(json[0]));
  ASCOPE_TRY(check_tree_path(out.first, true));
  ASCOPE_TRY_ASSIGN(ref.pack, field(json, 1, packs.size() - 1));
  ASCOPE_TRY_ASSIGN(ref.frame.offset, field(json, 2, UINT32_MAX));
  ASCOPE_TRY_ASSIGN(ref.frame.stored, field(json, 3, UINT32_MAX));
  ASCOPE_TRY_ASSIGN(ref.frame.raw, field(json, 4, kMaxRawBytes));
  ASCOPE_TRY_ASSIGN(const std::uint32_t codec, field(json, 5, 1));
  ref.frame.codec = static_cast<Codec>(codec);
  ASCOPE_TRY_ASSIGN(ref.at, field(json, 6, ref.frame.raw));
  ASCOPE_TRY_ASSIGN(ref.raw, field(json, 7, ref.frame.raw - ref.at));
  ASCOPE_TRY_ASSIGN(const std::string id, from_hex(json[8].get_ref<const std::string&>()));
  const std::uint64_t end = std::uint64_t{ref.frame.offset} + ref.frame.stored + kPackTrailerBytes;
  if (id.size() != kIdBytes || ref.raw == 0 || !is_sane(ref.frame) || ref.frame.offset < kPackHeaderBytes ||
      end > packs[ref.pack].size_bytes) {
    return bad("a page lies outside of its pack");
  }
  ref.id = ChunkId::of(id);
  return out;
}

Result<std::vector<PageRef>> parse_pages(const Json& json, const std::vector<PackUse>& packs) {
  if (!json.is_array()) {
    return bad("a list of pages is none");
  }
  std::vector<PageRef> out;
  for (const Json& one : json) {
    ASCOPE_TRY_ASSIGN(PageRef page, parse_page(one, packs));
    if (!out.empty() && path_before(page.first, out.back().first)) {
      return bad("its pages are not in order");
    }
    out.push_back(std::move(page));
  }
  return out;
}

Result<std::vector<PackUse>> parse_packs(const Json& json) {
  if (!json.is_array()) {
    return bad("its list of packs is none");
  }
  std::vector<PackUse> out;
  std::set<PackName> seen;
  for (const Json& one : json) {
    PackUse use;
    ASCOPE_TRY_ASSIGN(const std::string hex, get_string(one, "name"));
    ASCOPE_TRY_ASSIGN(use.name, pack_name_from_hex(hex));
    ASCOPE_TRY_ASSIGN(use.size_bytes, member_number(one, "size", kMaxPackBytes));
    ASCOPE_TRY_ASSIGN(use.used_bytes, member_number(one, "used", use.size_bytes));
    if (!seen.insert(use.name).second) {
      return bad("a pack is named twice");
    }
    out.push_back(use);
  }
  return out;
}

template <typename Number>
bool parse_number(std::string_view text, int base, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::string> encode_root(const RepositoryKey& key, const ManifestRoot& root) {
  Json json;
  json["id"] = root.id;
  json["slot"] = bytes_json(root.slot);
  json["realm"] = root.realm;
  json["rev"] = root.rev;
  json["fence"] = std::to_string(root.fence);
  json["parent"] = root.parent;
  json["time"] = root.time;
  json["host"] = bytes_json(root.host);
  json["totals"] = Json{{"files", root.files}, {"content", root.content_bytes}};
  json["notes"] = root.notes;
  Json packs = Json::array();
  for (const PackUse& use : root.packs) {
    packs.push_back(
        Json{{"name", to_hex(use.name.view())}, {"size", use.size_bytes}, {"used", use.used_bytes}});
  }
  json["packs"] = std::move(packs);
  json["workspace"] = pages_json(root.workspace);
  json["roots"] = root.roots ? pages_json(*root.roots) : Json();
  return seal_object(key, kRootMagic, dump_json(json));
}

Result<ManifestRoot> decode_root(const RepositoryKey& key, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string text, unseal_object(key, kRootMagic, object));
  return parse_root(text);
}

Result<ManifestRoot> parse_root(std::string_view text) {
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(text));
  if (!json.is_object()) {
    return bad("it is no JSON object");
  }
  for (const char* name : {"slot", "host", "totals", "notes", "packs", "workspace", "roots"}) {
    if (!json.contains(name)) {
      return bad("'" + std::string(name) + "' is missing");
    }
  }
  ManifestRoot out;
  ASCOPE_TRY_ASSIGN(out.id, get_string(json, "id"));
  ASCOPE_TRY_ASSIGN(out.slot, json_bytes(json["slot"]));
  ASCOPE_TRY_ASSIGN(out.realm, get_string(json, "realm"));
  ASCOPE_TRY_ASSIGN(out.rev, member_number(json, "rev", UINT64_MAX));
  ASCOPE_TRY_ASSIGN(const std::string fence, get_string(json, "fence"));
  ASCOPE_TRY_ASSIGN(out.parent, get_string(json, "parent"));
  ASCOPE_TRY_ASSIGN(out.time, get_string(json, "time"));
  ASCOPE_TRY_ASSIGN(out.host, json_bytes(json["host"]));
  if (!parse_number(fence, 10, out.fence) || !json["totals"].is_object() || !json["notes"].is_array()) {
    return bad("a member is not of its type");
  }
  ASCOPE_TRY_ASSIGN(out.files, member_number(json["totals"], "files", UINT64_MAX));
  ASCOPE_TRY_ASSIGN(out.content_bytes, member_number(json["totals"], "content", UINT64_MAX));
  out.notes = json["notes"];
  ASCOPE_TRY_ASSIGN(out.packs, parse_packs(json["packs"]));
  ASCOPE_TRY_ASSIGN(out.workspace, parse_pages(json["workspace"], out.packs));
  if (!json["roots"].is_null()) {
    ASCOPE_TRY_ASSIGN(out.roots, parse_pages(json["roots"], out.packs));
  }
  return out;
}

std::string realm_folder(const RepositoryKey& key, std::string_view realm) {
  const std::string where =
      key.encrypts() ? key.object_name("realm", realm).substr(0, 32) : std::string(realm);
  return std::string(kManifestsFolder) + (where.empty() ? "none" : where) + "/";
}

std::string manifest_folder(const RepositoryKey& key, std::string_view realm, std::string_view slot) {
  return realm_folder(key, realm) + key.object_name("slot", slot).substr(0, 32) + "/";
}

std::string manifest_key(const std::string& folder, std::uint64_t rev, std::uint64_t fence,
                         std::string_view id, unsigned rewrite) {
  return fmt::format("{}{:016x}-{:016x}-{}{}", folder, rev, fence, id,
                     rewrite == 0 ? "" : fmt::format(".{}", rewrite));
}

std::optional<ManifestName> parse_manifest_key(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  if (!key.starts_with(kManifestsFolder) || slash == std::string_view::npos) {
    return std::nullopt;
  }
  ManifestName out;
  out.folder = key.substr(0, slash + 1);
  const std::string_view name = key.substr(slash + 1);
  constexpr std::size_t kId = 2 * (kHexChars + 1);
  if (name.size() < kId + 1 || name[kHexChars] != '-' || name[kId - 1] != '-' ||
      !parse_number(name.substr(0, kHexChars), 16, out.rev) ||
      !parse_number(name.substr(kHexChars + 1, kHexChars), 16, out.fence)) {
    return std::nullopt;
  }
  const std::string_view rest = name.substr(kId);
  out.id = rest.substr(0, rest.find('.'));
  return out;
}

}  // namespace ascope::chunks
