// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/engine.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "backends/docker/engine_replies.h"

namespace ascope::docker {

namespace {

constexpr std::size_t kMaxWarnings = 20;
constexpr std::size_t kMaxList = 100000;
constexpr Millis kPingLimit{20000};

bool is_success(int status) {
  return status >= 200 && status < 300;
}

// As it stands in a path: the engine's routes know slashes and colons.
std::string reference_path(const std::string& reference) {
  std::string out;
  for (const char c : reference) {
    out += c == '/' || c == ':' || c == '@' ? std::string(1, c) : url_encode(std::string_view(&c, 1));
  }
  return out;
}

// A reference as repository and tag or digest; without either the tag is "latest".
std::pair<std::string, std::string> split_reference(const std::string& reference) {
  if (const auto at = reference.find('@'); at != std::string::npos) {
    return {reference.substr(0, at), reference.substr(at + 1)};
  }
  const auto colon = reference.rfind(':');
  const auto slash = reference.rfind('/');
  if (colon != std::string::npos && (slash == std::string::npos || colon > slash)) {
    return {reference.substr(0, colon), reference.substr(colon + 1)};
  }
  return {reference, "latest"};
}

}  // namespace

std::string to_string(const ApiVersion& version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

std::optional<ApiVersion> parse_version(std::string_view text) {
  ApiVersion out;
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = [](std::string_view part, int& into) {
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), into);
    return !part.empty() && part.size() <= 4 && parsed.ec == std::errc{} &&
           parsed.ptr == part.data() + part.size() && into >= 0;
  };
  return number(text.substr(0, dot), out.major) && number(text.substr(dot + 1), out.minor)
             ? std::optional<ApiVersion>(out)
             : std::nullopt;
}

Engine::Engine(Endpoint endpoint) : endpoint_(std::move(endpoint)), client_(endpoint_.server) {}

Error Engine::failure(std::string_view what, Error error) const {
  const bool absent = error.kind == ErrorKind::not_found;
  const bool unreachable = absent || error.kind == ErrorKind::corrupt || error.kind == ErrorKind::timeout;
  std::string hint = error.hint;
  if (hint.empty() && error.kind == ErrorKind::denied) {
    hint =
        by_socket()
            ? "join the group that owns the socket (often 'docker'), or run an engine of your own (rootless)"
            : "look at DOCKER_CERT_PATH and DOCKER_TLS_VERIFY";
  } else if (hint.empty() && unreachable) {
    hint = absent ? fmt::format("start the engine, or name another one (it is named by {})", endpoint_.origin)
                  : "look at the engine's log, or restart it";
  }
  if (unreachable) {
    error.kind = ErrorKind::backend_unavailable;  // nothing was answered, least of all "not there"
  }
  error.message = fmt::format("engine '{}': {}: {}", address(), what, error.message);
  error.hint = std::move(hint);
  return error;
}

Error Engine::refusal(const Call& call, const HttpReply& reply) const {
  std::string message;
  if (const auto json = parse_json(reply.body); json) {
    if (const auto text = get_optional_string(*json, "message"); text && *text) {
      message = shown_text(**text);
    }
  }
  if (message.empty()) {
    message = reply.body.empty() ? "no reason was given" : shown_text(reply.body);
  }
  ErrorKind kind = ErrorKind::backend_unavailable;
  std::string hint;
  switch (reply.status) {
    case 400:
      kind = ErrorKind::config;
      break;
    case 401:
    case 403:
      kind = ErrorKind::denied;
      break;
    case 404:
      kind = ErrorKind::not_found;
      break;
    case 409:
      kind = ErrorKind::conflict;
      break;
    case 501:
      kind = ErrorKind::unsupported;
      break;
    default:
      hint = "look at the engine's log, or try again";
      break;
  }
  if (message.find("client version") != std::string::npos) {
    kind = ErrorKind::unsupported;
    hint = endpoint_.api_version.empty() ? "another version of the engine or of this program is needed"
                                         : "unset DOCKER_API_VERSION";
  }
  return make_error(kind,
                    fmt::format("engine '{}': {}: {} (HTTP {})", address(), call.what, message, reply.status),
                    std::move(hint));
}

Result<void> Engine::negotiate(const OpContext& ctx) {
  if (version_) {
    return ok();
  }
  HttpRequest request;
  request.target = "/_ping";
  request.max_body_bytes = 64U << 10U;
  auto reply = client_.send(ctx.with_timeout(kPingLimit), request);
  if (!reply) {
    ASCOPE_TRY(ctx.check("asking the engine for its version"));
    return failure("asking for its version", std::move(reply).error());
  }
  const Call call{.what = "asking for its version"};
  if (!is_success(reply->status)) {
    return refusal(call, *reply);
  }
  podman_ = reply->headers.contains("libpod-api-version");
  const auto header = [&](const char* name) {
    const auto found = reply->headers.find(name);
    return found == reply->headers.end() ? std::string() : found->second;
  };
  software_ = shown_text(header("server"));
  const std::optional<ApiVersion> newest = parse_version(header("api-version"));
  if (!newest) {
    return failure(call.what, make_error(ErrorKind::corrupt, "what answers there is no container engine",
                                         "name the engine's own socket or port"));
  }
  if (const std::string os = header("ostype"); !os.empty() && os != "linux") {
    return make_error(ErrorKind::unsupported,
                      fmt::format("engine '{}' runs containers of '{}'", address(), shown_text(os)),
                      "an engine for Linux containers is needed");
  }
  version_ = std::min(kNewestApi, *newest);
  if (!endpoint_.api_version.empty()) {
    version_ = parse_version(endpoint_.api_version);
  }
  if (!version_ || *version_ < kOldestApi) {
    const std::string spoken = version_ ? to_string(*version_) : endpoint_.api_version;
    version_.reset();
    return make_error(ErrorKind::unsupported,
                      fmt::format("engine '{}' speaks version {} of the API, {} is needed", address(), spoken,
                                  to_string(kOldestApi)),
                      "Docker 19.03 or newer, or Podman 4, is needed");
  }
  // Engines may refuse what is older than they like, and then they say what they like.
  request.target = "/version";
  request.max_body_bytes = 1U << 20U;
  if (*version_ < *newest && endpoint_.api_version.empty()) {
    auto more = client_.send(ctx.with_timeout(kPingLimit), request);
    const auto json = more && is_success(more->status) ? parse_json(more->body) : Result<Json>(Json());
    const auto least = json ? get_optional_string(*json, "MinAPIVersion") : std::optional<std::string>();
    if (least && *least) {
      version_ = std::max(*version_, parse_version(**least).value_or(*version_));
    }
  }
  return ok();
}

Result<ApiVersion> Engine::version(const OpContext& ctx) {
  ASCOPE_TRY(negotiate(ctx));
  return *version_;
}

Result<HttpReply> Engine::ask(const OpContext& ctx, const Call& call) {
  ASCOPE_TRY(negotiate(ctx));
  HttpRequest request;
  request.method = call.method;
  request.target = fmt::format("/v{}{}", to_string(*version_), call.target);
  request.max_body_bytes = call.max_body_bytes;
  request.silence_limit = call.limit;
  if (call.on_body) {
    request.on_body = call.on_body;
  }
  if (call.body) {
    request.body = dump_json(*call.body);
    request.has_body = true;
    request.headers.emplace_back("Content-Type", "application/json");
  }
  auto reply = client_.send(ctx, request);
  if (!reply) {
    ASCOPE_TRY(ctx.check(call.what));
    return failure(call.what, std::move(reply).error());
  }
  return reply;
}

Result<Json> Engine::ask_json(const OpContext& ctx, const Call& call) {
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  if (!is_success(reply.status)) {
    return refusal(call, reply);
  }
  auto json = parse_json(reply.body);
  if (!json) {
    return failure(call.what, std::move(json).error().within("the answer cannot be read"));
  }
  return json;
}

Result<std::string> Engine::identity(const OpContext& ctx) {
  constexpr std::string_view kWhat = "asking who it is";
  ASCOPE_TRY_ASSIGN(const Json json, ask_json(ctx, Call{.what = kWhat, .target = "/info"}));
  auto id = get_optional_string(json, "ID");
  if (!id) {
    return failure(kWhat, std::move(id).error());
  }
  // Podman makes one up for each answer.
  return podman_ ? std::string() : id->value_or("");
}

Result<std::optional<ImageFacts>> Engine::find_image(const OpContext& ctx, const std::string& reference) {
  const std::string what = fmt::format("looking at image '{}'", reference);
  const Call call{.what = what, .target = fmt::format("/images/{}/json", reference_path(reference))};
  auto json = ask_json(ctx, call);
  if (!json) {
    return json.error().kind == ErrorKind::not_found ? Result<std::optional<ImageFacts>>(std::nullopt)
                                                     : std::move(json).error();
  }
  auto facts = parse_image(*json);
  return facts ? Result<std::optional<ImageFacts>>(std::move(*facts))
               : failure(what, std::move(facts).error());
}

Result<void> Engine::pull_image(const OpContext& ctx, const std::string& reference,
                                const std::string& platform, const PullProgress& progress) {
  const std::string what = fmt::format("pulling image '{}'", reference);
  const auto [repository, tag] = split_reference(reference);
  PullStream stream(progress);
  JsonLines lines([&stream](const Json& line) { return stream.take(line); });
  Call call{
      .what = what,
      .method = "POST",
      .target = fmt::format("/images/create?fromImage={}&tag={}{}", url_encode(repository), url_encode(tag),
                            platform.empty() ? "" : "&platform=" + url_encode(platform)),
      .on_body = [&lines](ByteView piece) { return lines.take(piece); },
      .limit = Millis(300000)};
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  const auto give_up = [&](Error error) {
    return std::move(error).with_hint(
        fmt::format("pull it by hand, load it from a file, or set 'backend.image' to one that is there"));
  };
  if (!is_success(reply.status)) {
    return give_up(refusal(call, reply));
  }
  if (auto last = lines.flush(); !last) {
    return failure(what, std::move(last).error());
  }
  if (!stream.problem.empty()) {
    const std::string said = shown_text(stream.problem);
    const bool closed =
        said.find("denied") != std::string::npos || said.find("unauthorized") != std::string::npos;
    return give_up(make_error(closed ? ErrorKind::denied : ErrorKind::backend_unavailable,
                              fmt::format("engine '{}': {}: {}", address(), what, said)));
  }
  return ok();
}

Result<Engine::Created> Engine::create_container(const OpContext& ctx, const std::string& name,
                                                 const std::string& platform, const Json& body) {
  const std::string what = fmt::format("creating container '{}'", name);
  const Call call{.what = what,
                  .method = "POST",
                  .target = fmt::format("/containers/create?name={}{}", url_encode(name),
                                        platform.empty() ? "" : "&platform=" + url_encode(platform)),
                  .body = body};
  ASCOPE_TRY_ASSIGN(const Json json, ask_json(ctx, call));
  auto id = get_id(json);
  if (!id) {
    return failure(what, std::move(id).error());
  }
  Created created{std::move(*id), {}};
  if (const Json* warnings = member(json, "Warnings"); warnings != nullptr && warnings->is_array()) {
    for (const Json& item : *warnings) {
      if (item.is_string() && created.warnings.size() < kMaxWarnings) {
        created.warnings.push_back(shown_text(item.get<std::string>()));
      }
    }
  }
  return created;
}

Result<void> Engine::start_container(const OpContext& ctx, const std::string& id) {
  const std::string what = fmt::format("starting container '{}'", id);
  const Call call{
      .what = what, .method = "POST", .target = fmt::format("/containers/{}/start", url_encode(id))};
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  return is_success(reply.status) || reply.status == 304 ? ok() : Result<void>(refusal(call, reply));
}

Result<void> Engine::kill_container(const OpContext& ctx, const std::string& id) {
  const std::string what = fmt::format("ending container '{}'", id);
  const Call call{
      .what = what, .method = "POST", .target = fmt::format("/containers/{}/kill", url_encode(id))};
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  const bool over = is_success(reply.status) || reply.status == 404 || reply.status == 409;
  return over ? ok() : Result<void>(refusal(call, reply));
}

Result<void> Engine::wait_container(const OpContext& ctx, const std::string& id) {
  const std::string what = fmt::format("waiting for the end of container '{}'", id);
  const Call call{.what = what,
                  .method = "POST",
                  .target = fmt::format("/containers/{}/wait?condition=not-running", url_encode(id))};
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  return is_success(reply.status) || reply.status == 404 ? ok() : Result<void>(refusal(call, reply));
}

Result<void> Engine::remove_container(const OpContext& ctx, const std::string& id) {
  const std::string what = fmt::format("removing container '{}'", id);
  const Call call{
      .what = what, .method = "DELETE", .target = fmt::format("/containers/{}?v=1", url_encode(id))};
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  if (is_success(reply.status) || reply.status == 404) {
    return ok();
  }
  return refusal(call, reply);
}

Result<std::optional<ContainerFacts>> Engine::find_container(const OpContext& ctx,
                                                             const std::string& name_or_id) {
  const std::string what = fmt::format("looking at container '{}'", name_or_id);
  const Call call{.what = what, .target = fmt::format("/containers/{}/json", url_encode(name_or_id))};
  auto json = ask_json(ctx, call);
  if (!json) {
    return json.error().kind == ErrorKind::not_found ? Result<std::optional<ContainerFacts>>(std::nullopt)
                                                     : std::move(json).error();
  }
  auto facts = parse_container(*json);
  return facts ? Result<std::optional<ContainerFacts>>(std::move(*facts))
               : failure(what, std::move(facts).error());
}

Result<std::vector<ContainerSummary>> Engine::list_containers(
    const OpContext& ctx, const std::map<std::string, std::string>& labels) {
  constexpr std::string_view kWhat = "listing containers";
  Json wanted = Json::array();
  for (const auto& [key, value] : labels) {
    wanted.push_back(fmt::format("{}={}", key, value));
  }
  const Call call{
      .what = kWhat,
      .target = "/containers/json?all=1&filters=" + url_encode(dump_json(Json{{"label", wanted}})),
      .max_body_bytes = 64U << 20U};
  ASCOPE_TRY_ASSIGN(const Json json, ask_json(ctx, call));
  if (!json.is_array() || json.size() > kMaxList) {
    return failure(kWhat, make_error(ErrorKind::corrupt, "the answer is not a list of containers"));
  }
  std::vector<ContainerSummary> out;
  for (const Json& item : json) {
    ContainerSummary one;
    auto read = [&]() -> Result<void> {
      ASCOPE_TRY_ASSIGN(one.id, get_id(item));
      ASCOPE_TRY_ASSIGN(one.state, get_string(item, "State"));
      ASCOPE_TRY_ASSIGN(one.labels, get_labels(item));
      if (const Json* names = member(item, "Names");
          names != nullptr && names->is_array() && !names->empty() && names->front().is_string()) {
        one.name = bare_name(names->front().get<std::string>());
      }
      return ok();
    }();
    if (!read) {
      return failure(kWhat, std::move(read).error());
    }
    // The filter is the engine's; whose a container is must not hang on it.
    const bool all = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      const auto found = one.labels.find(label.first);
      return found != one.labels.end() && found->second == label.second;
    });
    if (all) {
      out.push_back(std::move(one));
    }
  }
  return out;
}

Result<bool> Engine::has_folder(const OpContext& ctx, const std::string& id, const std::string& path) {
  const std::string what = fmt::format("looking at '{}' of container '{}'", path, id);
  // A path that ends in a slash is followed to a folder.
  const Call call{
      .what = what,
      .method = "HEAD",
      .target = fmt::format("/containers/{}/archive?path={}", url_encode(id), url_encode(path + "/"))};
  ASCOPE_TRY_ASSIGN(const HttpReply reply, ask(ctx, call));
  if (is_success(reply.status)) {
    return true;
  }
  // Docker 20.10 answers 400 or 500 for something that is no folder.
  if (reply.status == 404 || reply.status == 400) {
    return false;
  }
  return refusal(call, reply);
}

}  // namespace ascope::docker
