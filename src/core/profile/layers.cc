// SPDX-License-Identifier: Apache-2.0
#include "core/profile/layers.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/spelling.h"
#include "core/profile/profile_schema.h"
#include "core/profile/value.h"

namespace ascope {
namespace {

// Reads one source's YAML into a layer, down the groups of the key table.
class LayerReader {
 public:
  LayerReader(const ProfileSource& source, OriginKind kind, Problems& problems)
      : source_(source), kind_(kind), problems_(problems) {}

  // The members of a group ("" = the top of the profile).
  void read_group(std::string_view prefix, const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) {
      return;  // "backend:" with nothing below sets nothing
    }
    if (node.kind != YamlNode::Kind::map) {
      problems_.push_back(source_.error(
          node, fmt::format("{} is {} where a map is needed",
                            prefix.empty() ? std::string("the profile") : fmt::format("'{}'", prefix),
                            describe(node))));
      return;
    }
    for (const auto& [name, value] : node.members) {
      const std::string key = prefix.empty() ? name->text : fmt::format("{}.{}", prefix, name->text);
      read_named(key, prefix, *name, *value);
    }
  }

  // A key or group by its full name.
  void read_named(const std::string& key, std::string_view prefix, const YamlNode& name,
                  const YamlNode& value) {
    if (const ProfileKey* const known = find_profile_key(key); known != nullptr) {
      read_key(*known, value);
    } else if (is_profile_group(key)) {
      read_group(key, value);
    } else {
      problems_.push_back(unknown_key(prefix, name));
    }
  }

  void read_member_value(const ProfileKey& key, const std::string& member, const YamlNode& name,
                         const YamlNode& value) {
    keep({std::string(key.name), member}, value, read_member(key, member, name, value, source_));
  }

  Layer take() { return std::move(layer_); }

 private:
  void read_key(const ProfileKey& key, const YamlNode& node) {
    if (!is_map_key(key)) {
      keep({std::string(key.name), ""}, node, read_value(key, node, source_));
      return;
    }
    if (node.kind == YamlNode::Kind::null) {
      return;
    }
    if (node.kind != YamlNode::Kind::map) {
      problems_.push_back(
          source_.error(node, fmt::format("'{}' is {} where a map is needed", key.name, describe(node)),
                        "write a map such as {name: value}"));
      return;
    }
    for (const auto& [name, value] : node.members) {
      read_member_value(key, name->text, *name, *value);
    }
  }

  void keep(LayerKey key, const YamlNode& node, Result<Json> value) {
    if (!value) {
      problems_.push_back(std::move(value).error());
      return;
    }
    layer_.values[std::move(key)] =
        LayerValue{std::move(value).value(), Origin{kind_, to_string(source_.place(node))}};
  }

  [[nodiscard]] Error unknown_key(std::string_view prefix, const YamlNode& name) const {
    const std::string what = prefix.empty() ? fmt::format("key '{}'", name.text)
                                            : fmt::format("key '{}' in '{}'", name.text, prefix);
    const auto words = profile_group_words(prefix);
    if (nearest_word(name.text, {words.begin(), words.end()}).empty()) {
      for (const ProfileKey& key : profile_keys()) {
        if (key.name.ends_with("." + name.text)) {
          return source_.error(name, fmt::format("unknown {}", what),
                               fmt::format("did you mean '{}'?", key.name));
        }
      }
    }
    return source_.unknown_word(name, what, name.text, words);
  }

  const ProfileSource& source_;
  OriginKind kind_;
  Problems& problems_;
  Layer layer_;
};

bool is_written_in_yaml(const ProfileKey& key) {
  return key.type == KeyType::text_list || key.type == KeyType::skills || is_map_key(key);
}

YamlNode text_node(std::string_view text) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  node.plain = true;
  return node;
}

// Reads `text` as the value of `name`, a key, a group, or a member of a map key ("backend.options.x").
void read_text_pair(LayerReader& reader, const ProfileSource& source, const std::string& name,
                    std::string_view text, Problems& problems) {
  const YamlNode name_node = text_node(name);
  const ProfileKey* const key = find_profile_key(name);
  if (key == nullptr) {
    for (const ProfileKey& candidate : profile_keys()) {
      const std::string prefix = fmt::format("{}.", candidate.name);
      if (is_map_key(candidate) && name.starts_with(prefix) && candidate.type != KeyType::entries) {
        reader.read_member_value(candidate, name.substr(prefix.size()), name_node, text_node(text));
        return;
      }
    }
  }
  if (key != nullptr && (!is_written_in_yaml(*key) || text == key->choices)) {
    reader.read_named(name, "", name_node, text_node(text));
    return;
  }
  if (key == nullptr && !is_profile_group(name)) {
    std::vector<std::string> names;
    for (const ProfileKey& known : profile_keys()) {
      names.emplace_back(known.name);
    }
    const std::string near = nearest_word(name, names);
    problems.push_back(source.error(name_node, fmt::format("unknown key '{}'", name),
                                    near.empty() ? "'ascope-sandbox profile show' lists the keys"
                                                 : fmt::format("did you mean '{}'?", near)));
    return;
  }
  auto document = parse_yaml(text, source.name);
  if (!document) {
    problems.push_back(std::move(document).error().with_hint("write it as in a profile: [a, b] or {a: b}"));
    return;
  }
  if (document->root() != nullptr) {
    reader.read_named(name, "", name_node, *document->root());
  }
}

// A default of the table: text as it stands, but for booleans, numbers and flow lists of plain words.
Json parse_default(const ProfileKey& key) {
  std::string_view text = key.default_text;
  if (key.type == KeyType::boolean) {
    return text == "true";
  }
  if (key.type == KeyType::number) {
    return std::stoull(std::string(text));
  }
  if (key.type != KeyType::text_list) {
    return std::string(text);
  }
  Json list = Json::array();
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(", "), text.size());
    list.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return list;
}

// A variable whose name begins like a key's, but is none: most likely a slip.
void warn_unknown_variable(const std::string& name, std::vector<std::string>& warnings) {
  std::vector<std::string> names;
  for (const ProfileKey& key : profile_keys()) {
    names.push_back(environment_name(key.name));
  }
  const bool like_a_group = name.starts_with("ASCOPE_BACKEND_") || name.starts_with("ASCOPE_WORKSPACE_") ||
                            name.starts_with("ASCOPE_SNAPSHOTS_") || name.starts_with("ASCOPE_LOCK_");
  if (!like_a_group) {
    return;
  }
  const std::string near = nearest_word(name, names);
  warnings.push_back(near.empty()
                         ? fmt::format("{} is no setting and is ignored", name)
                         : fmt::format("{} is no setting and is ignored; did you mean {}?", name, near));
}

}  // namespace

const LayerValue* Layer::find(std::string_view key) const {
  const auto found = values.find(LayerKey(key, ""));
  return found == values.end() ? nullptr : &found->second;
}

std::vector<std::pair<std::string, const LayerValue*>> Layer::members(std::string_view key) const {
  std::vector<std::pair<std::string, const LayerValue*>> found;
  for (auto at = values.lower_bound(LayerKey(key, "")); at != values.end() && at->first.first == key; ++at) {
    found.emplace_back(at->first.second, &at->second);
  }
  return found;
}

Layer builtin_layer() {
  Layer layer;
  for (const ProfileKey& key : profile_keys()) {
    if (!key.default_text.empty()) {
      layer.values.emplace_hint(layer.values.end(), LayerKey(key.name, ""),
                                LayerValue{parse_default(key), Origin{OriginKind::builtin, "built in"}});
    }
  }
  return layer;
}

Layer read_file_layer(std::string_view text, const ProfileSource& source, OriginKind kind,
                      Problems& problems) {
  auto document = parse_yaml(text, source.name);
  if (!document) {
    problems.push_back(std::move(document).error());
    return {};
  }
  LayerReader reader(source, kind, problems);
  if (document->root() != nullptr) {
    reader.read_group("", *document->root());
  }
  return reader.take();
}

Layer read_environment_layer(const ProfileInputs& inputs, Problems& problems,
                             std::vector<std::string>& warnings) {
  Layer layer;
  for (auto at = inputs.environment.lower_bound("ASCOPE_");
       at != inputs.environment.end() && at->first.starts_with("ASCOPE_"); ++at) {
    if (at->second.empty()) {
      continue;
    }
    const auto keys = profile_keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const ProfileKey& known) {
      return known.name != "version" && environment_name(known.name) == at->first;
    });
    if (key == keys.end()) {
      warn_unknown_variable(at->first, warnings);
      continue;
    }
    ProfileSource source{at->first, inputs.cwd, inputs.home, false, nullptr};
    LayerReader reader(source, OriginKind::environment, problems);
    read_text_pair(reader, source, std::string(key->name), at->second, problems);
    layer.values.merge(reader.take().values);
  }
  return layer;
}

Layer read_pairs_layer(const std::vector<std::pair<std::string, std::string>>& pairs, bool named,
                       const ProfileInputs& inputs, Problems& problems) {
  Layer layer;
  for (const auto& [name, text] : pairs) {
    std::string flag = fmt::format("{}{}", named ? "--" : "--set ", name);
    std::replace(flag.begin(), flag.end(), '_', named ? '-' : '_');
    const ProfileSource source{std::move(flag), inputs.cwd, inputs.home, false, nullptr};
    LayerReader reader(source, OriginKind::flag, problems);
    read_text_pair(reader, source, name, text, problems);
    for (auto& [key, value] : reader.take().values) {
      layer.values[key] = std::move(value);
    }
  }
  return layer;
}

void lay_over(Layer& lower, Layer upper) {
  const LayerValue* const type = upper.find("backend.type");
  const LayerValue* const old_type = lower.find("backend.type");
  if (type != nullptr && old_type != nullptr && type->value != old_type->value) {
    std::erase_if(lower.values, [](const auto& item) {
      return item.first.first.starts_with("backend.") && item.second.origin.kind != OriginKind::builtin;
    });
    const Layer defaults = builtin_layer();
    for (const auto& [key, value] : defaults.values) {
      if (key.first.starts_with("backend.")) {
        lower.values.emplace(key, value);
      }
    }
  }
  for (auto& [key, value] : upper.values) {
    lower.values[key] = std::move(value);
  }
}

}  // namespace ascope
