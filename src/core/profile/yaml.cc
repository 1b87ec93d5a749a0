// SPDX-License-Identifier: Apache-2.0
#include "core/profile/yaml.h"

#include <map>
#include <sstream>
#include <unordered_set>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "core/base/bytes.h"

namespace ascope {

std::string to_string(const Place& place) {
  return place.line == 0 ? place.source : fmt::format("{}:{}:{}", place.source, place.line, place.column);
}

std::string_view describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::scalar:
      return "text";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
  }
  return "nothing";
}

// Builds the tree from the parser's events. Refuses by throwing the library's own exception, so that both
// kinds of error leave parse_yaml by one way.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      throw YAML::ParserException(mark, "a second document; a profile is one document");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, anchor, YamlNode::Kind::null);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag, tag == "!");
    YamlNode& node = add(mark, anchor, YamlNode::Kind::scalar, &value);
    node.plain = tag == "?";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_tag(mark, tag, false);
    open(mark, anchor, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_tag(mark, tag, false);
    open(mark, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw YAML::ParserException(mark, "an alias of a value that it stands in");
    }
    attach(mark, *found->second.first, found->second.second);
  }

 private:
  struct Frame {
    YamlNode* node;
    YAML::anchor_t anchor;
    const YamlNode* key = nullptr;
    std::size_t weight = 1;  // nodes below and with it, aliases written out
    std::unordered_set<std::string> keys;
  };

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag, bool allowed) {
    if (!tag.empty() && tag != "?" && !allowed) {
      throw YAML::ParserException(mark, "a tag; write the value alone");
    }
  }

  YamlNode& make(const YAML::Mark& mark, YamlNode::Kind kind) {
    document_.nodes_.push_back(std::make_unique<YamlNode>());
    YamlNode& node = *document_.nodes_.back();
    node.kind = kind;
    node.line = static_cast<std::size_t>(mark.line) + 1;
    node.column = static_cast<std::size_t>(mark.column) + 1;
    return node;
  }

  YamlNode& add(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind,
                const std::string* text = nullptr) {
    YamlNode& node = make(mark, kind);
    if (text != nullptr) {
      node.text = *text;
    }
    attach(mark, node, 1);
    remember(anchor, node, 1);
    return node;
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (stack_.size() >= kMaxYamlDepth) {
      throw YAML::ParserException(mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth));
    }
    YamlNode& node = make(mark, kind);
    attach(mark, node, 1);
    stack_.push_back(Frame{&node, anchor, nullptr, 1, {}});
  }

  void close() {
    const Frame frame = std::move(stack_.back());
    stack_.pop_back();
    if (!stack_.empty()) {
      stack_.back().weight += frame.weight - 1;
    }
    remember(frame.anchor, *frame.node, frame.weight);
  }

  void remember(YAML::anchor_t anchor, const YamlNode& node, std::size_t weight) {
    if (anchor != YAML::NullAnchor) {
      anchors_[anchor] = {&node, weight};
    }
  }

  void attach(const YAML::Mark& mark, const YamlNode& node, std::size_t weight) {
    total_ += weight;
    if (total_ > kMaxYamlNodes) {
      throw YAML::ParserException(mark, fmt::format("more than {} values", kMaxYamlNodes));
    }
    if (stack_.empty()) {
      document_.root_ = &node;
      return;
    }
    Frame& frame = stack_.back();
    frame.weight += weight;
    if (frame.node->kind == YamlNode::Kind::list) {
      frame.node->items.push_back(&node);
    } else if (frame.key == nullptr) {
      take_key(mark, frame, node);
    } else {
      if (node.kind == YamlNode::Kind::null && &node == document_.nodes_.back().get()) {
        // the parser places it where the next value begins
        document_.nodes_.back()->line = frame.key->line;
        document_.nodes_.back()->column = frame.key->column;
      }
      frame.node->members.emplace_back(std::exchange(frame.key, nullptr), &node);
    }
  }

  static void take_key(const YAML::Mark& mark, Frame& frame, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::scalar) {
      throw YAML::ParserException(mark, fmt::format("{} where a key is needed", describe(node)));
    }
    if (!frame.keys.insert(node.text).second) {
      throw YAML::ParserException(mark, fmt::format("key '{}' stands twice in this map", node.text));
    }
    frame.key = &node;
  }

  YamlDocument& document_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, std::pair<const YamlNode*, std::size_t>> anchors_;
  std::size_t documents_ = 0;
  std::size_t total_ = 0;
};

namespace {

Error yaml_error(std::string_view source, std::size_t line, std::size_t column, std::string_view message) {
  return make_error(ErrorKind::config,
                    fmt::format("{}: {}", to_string(Place{std::string(source), line, column}), message));
}

// The reader decodes nothing but UTF-8 and passes no control bytes on, so the text is checked first.
Result<void> check_bytes(std::string_view text, std::string_view source) {
  if (text.size() > kMaxProfileBytes) {
    return yaml_error(source, 0, 0, fmt::format("larger than {} bytes", kMaxProfileBytes));
  }
  std::size_t line = 1;
  std::size_t start = 0;
  const bool valid = is_utf8(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      if (!valid && !is_utf8(text.substr(start, i - start))) {
        return yaml_error(source, line, 1, "this line is not UTF-8 text");
      }
      ++line;
      start = i + 1;
    } else if ((byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7f) {
      return yaml_error(source, line, i - start + 1, fmt::format("a control byte (0x{:02x})", byte));
    }
  }
  if (!valid) {
    return yaml_error(source, line, 1, "this line is not UTF-8 text");
  }
  return ok();
}

}  // namespace

Result<YamlDocument> parse_yaml(std::string_view text, std::string_view source) {
  ASCOPE_TRY(check_bytes(text, source));
  YamlDocument document;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    YamlBuilder builder(document);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& failure) {
    const bool placed = !failure.mark.is_null() && failure.mark.line >= 0;
    return yaml_error(source, placed ? static_cast<std::size_t>(failure.mark.line) + 1 : 0,
                      placed ? static_cast<std::size_t>(failure.mark.column) + 1 : 0, failure.msg);
  } catch (const std::exception& failure) {
    return yaml_error(source, 0, 0, fmt::format("not readable as YAML: {}", failure.what()));
  }
  return document;
}

}  // namespace ascope
