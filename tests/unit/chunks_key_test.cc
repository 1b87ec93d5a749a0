// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/base/hash.h"
#include "core/repository/chunks/chunker.h"
#include "core/repository/chunks/cipher_lib.h"
#include "core/repository/chunks/key.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

namespace {

std::string hex(std::string_view text) {
  return from_hex(text).value();
}

}  // namespace

TEST_CASE("key: HMAC-SHA256 as in RFC 4231") {
  struct Row {
    std::string key;
    std::string data;
    const char* digest;
  };
  const std::vector<Row> rows = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
  };
  for (const Row& row : rows) {
    CHECK(to_hex(hmac_sha256(row.key, row.data)) == row.digest);
  }
}

TEST_CASE("key: HKDF-SHA256 as in RFC 5869") {
  CHECK(to_hex(hkdf_sha256(std::string(22, '\x0b'), hex("000102030405060708090a0b0c"),
                           hex("f0f1f2f3f4f5f6f7f8f9"))) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  CHECK(to_hex(hkdf_sha256(std::string(22, '\x0b'), "", "")) ==
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

TEST_CASE("key: AES-256-GCM as in the test cases of its authors") {
  // McGrew and Viega, test case 16.
  const std::string key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const std::string nonce = hex("cafebabefacedbaddecaf888");
  const std::string aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const std::string plain =
      hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b1"
          "6aedf5aa0d"
          "e657ba637b39");
  const std::string sealed =
      hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5"
          "f61e6393ba"
          "7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
  CHECK(to_hex(gcm_seal(key, nonce, aad, plain).value()) == to_hex(sealed));
  CHECK(gcm_open(key, nonce, aad, sealed).value() == plain);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string bad = sealed;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    CHECK(gcm_open(key, nonce, aad, bad).error().kind == ErrorKind::corrupt);
  }
  CHECK(gcm_open(key, nonce, aad + "x", sealed).error().kind == ErrorKind::corrupt);
  CHECK(gcm_open(key, nonce, aad, "short").error().kind == ErrorKind::corrupt);
  CHECK(gcm_open(key, nonce, "", gcm_seal(key, nonce, "", "").value()).value().empty());
}

TEST_CASE("key: what follows from a master key, and what from none") {
  const Secret master(std::string(32, 'm'));
  const Secret other(std::string(32, 'n'));
  const RepositoryKey open;
  const RepositoryKey one(master, "repo-1");
  const RepositoryKey same(master, "repo-1");
  const RepositoryKey two(master, "repo-2");
  const RepositoryKey three(other, "repo-1");
  CHECK(to_hex(open.chunk_id("abc").view()) == sha256_hex("abc"));
  CHECK(open.check().empty());
  CHECK(one.chunk_id("abc") == same.chunk_id("abc"));
  CHECK(one.chunk_id("abc") != open.chunk_id("abc"));
  CHECK(one.chunk_id("abc") != three.chunk_id("abc"));
  CHECK(one.check() == same.check());
  CHECK(one.check() != two.check());
  CHECK(one.check() != three.check());
  CHECK(one.object_name("slot", "a") != open.object_name("slot", "a"));
  CHECK(one.object_name("slot", "a") != one.object_name("realm", "a"));
  CHECK(make_gear(one.gear_seed()) != make_gear(three.gear_seed()));

  const ObjectKey object = one.object_key("salt", "pack");
  const std::string sealed = object.seal(7, "what", "secret text").value();
  CHECK(sealed.find("secret") == std::string::npos);
  CHECK(sealed.size() == std::string("secret text").size() + object.overhead());
  CHECK(same.object_key("salt", "pack").open(7, "what", sealed).value() == "secret text");
  CHECK(object.open(8, "what", sealed).error().kind == ErrorKind::corrupt);
  CHECK(object.open(7, "else", sealed).error().kind == ErrorKind::corrupt);
  CHECK(one.object_key("tlas", "pack").open(7, "what", sealed).error().kind == ErrorKind::corrupt);
  CHECK(one.object_key("salt", "ASMF").open(7, "what", sealed).error().kind == ErrorKind::corrupt);
  CHECK(two.object_key("salt", "pack").open(7, "what", sealed).error().kind == ErrorKind::corrupt);
  CHECK(three.object_key("salt", "pack").open(7, "what", sealed).error().kind == ErrorKind::corrupt);
  CHECK(open.object_key("salt", "pack").seal(7, "what", "plain").value() == "plain");
  CHECK(open.object_key("salt", "pack").overhead() == 0);
}

TEST_CASE("key: the text of a master key") {
  const std::string bytes = hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  CHECK(parse_master_key(Secret(to_hex(bytes) + "\n")).value().reveal() == bytes);
  CHECK(parse_master_key(Secret("  " + to_base64(bytes))).value().reveal() == bytes);
  for (const char* bad : {"", "  ", "00", "zz", "000102030405060708090a0b0c0d0e0f", "not base64!"}) {
    CAPTURE(bad);
    const auto parsed = parse_master_key(Secret(bad));
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().kind == ErrorKind::config);
    CHECK((std::string(bad).size() < 3 || parsed.error().message.find(bad) == std::string::npos));
  }
}
