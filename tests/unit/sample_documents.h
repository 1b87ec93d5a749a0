// SPDX-License-Identifier: Apache-2.0
// One document of each AgentScope backend, byte for byte as its own classes write it.
#pragma once

#include <array>
#include <string_view>

namespace ascope::test {

struct SampleDocument {
  std::string_view name;
  std::string_view text;
};

// clang-format off
inline constexpr std::array<SampleDocument, 6> kSampleDocuments{{
    {"docker",
     R"json({"type":"docker","sessionId":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","snapshot":{"type":"local","basePath":"/data/snapshots","id":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11"},"workspaceProjectionHash":"7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda","workspaceRootReady":true,"containerId":"4f9c0d1e2b3a5566778899aabbccddeeff00112233445566778899aabbccddee","containerName":"agentscope-sandbox-0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","image":"ubuntu:24.04","workspaceRoot":"/workspace","containerOwned":true,"memorySizeBytes":536870912,"cpuCount":2,"exposedPorts":[8080],"network":null,"additionalRunArgs":["--cap-drop=ALL"],"manifest":{"root":"/workspace","entries":{"README.md":{"type":"file","ephemeral":false,"content":"hello\n","encoding":"UTF-8"},"src":{"type":"dir","ephemeral":false,"children":{"run.cfg":{"type":"file","ephemeral":true,"content":"debug=1\n","encoding":"UTF-8"}}},"tool.bin":{"type":"local_file","ephemeral":false,"sourcePath":"/opt/tools/tool.bin"},"assets":{"type":"local_dir","ephemeral":false,"sourcePath":"/opt/assets"},"lib":{"type":"git_repo","ephemeral":false,"url":"https://git.example.com/o/lib.git","ref":"HEAD"},"data":{"type":"bind_mount","ephemeral":false,"hostPath":"/srv/data","readOnly":true},"__workspace_projection__":{"type":"workspace_projection","ephemeral":false,"sourceRoot":"/app/.agentscope/workspace","includeRoots":["AGENTS.md","skills","subagents","knowledge",".skills-cache"]}},"environment":{"LANG":"C.UTF-8"}}})json"},
    {"kubernetes_pod",
     R"json({"type":"kubernetes","sessionId":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","snapshot":{"type":"remote","id":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11"},"workspaceProjectionHash":"7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda","workspaceRootReady":true,"namespace":"agents","podName":"as-sbx-0b1f6c1e7f2e4a869a55","containerName":"workspace","workspaceRoot":"/workspace","podOwned":true,"image":"ubuntu:22.04","manifest":{"root":"/workspace","entries":{"__workspace_projection__":{"type":"workspace_projection","ephemeral":false,"sourceRoot":"/app/.agentscope/workspace","includeRoots":["AGENTS.md","skills","subagents","knowledge",".skills-cache"]}},"environment":{}}})json"},
    {"kubernetes_claim",
     R"json({"type":"kubernetes","sessionId":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","snapshot":{"type":"remote","id":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11"},"workspaceProjectionHash":"7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda","workspaceRootReady":true,"namespace":"agents","claimName":"as-sbx-0b1f6c1e7f2e4a869a55","sandboxName":"py-pool-x7k2p","warmPoolName":"py-pool","podName":"py-pool-x7k2p","podIP":"10.42.0.17","workspaceRoot":"/workspace","fileApiBaseDir":"/workspace","claimOwned":true,"manifest":{"root":"/workspace","entries":{"__workspace_projection__":{"type":"workspace_projection","ephemeral":false,"sourceRoot":"/app/.agentscope/workspace","includeRoots":["AGENTS.md","skills","subagents","knowledge",".skills-cache"]}},"environment":{}}})json"},
    {"e2b",
     R"json({"type":"e2b","sessionId":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","snapshot":{"type":"remote","id":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11"},"workspaceProjectionHash":"7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda","workspaceRootReady":true,"sandboxId":"i3x9k2a7b1c0d4","templateId":"base","sandboxDomain":"e2b.app","envdAccessToken":"REDACTED","envdVersion":"0.1.5","workspaceRoot":"/home/user","sandboxOwned":true,"persistenceMode":"TAR","codec":"PROTO","manifest":{"root":"/workspace","entries":{"__workspace_projection__":{"type":"workspace_projection","ephemeral":false,"sourceRoot":"/app/.agentscope/workspace","includeRoots":["AGENTS.md","skills","subagents","knowledge",".skills-cache"]}},"environment":{}}})json"},
    {"daytona",
     R"json({"type":"daytona","sessionId":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","snapshot":{"type":"noop","id":"noop"},"workspaceProjectionHash":"7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda","workspaceRootReady":true,"sandboxId":"5d2b7c1e-0f6a-4c7f-8c55-1d9a1f2f7f10","workspaceRoot":"/home/daytona/workspace","sandboxOwned":true,"image":"ubuntu:22.04","snapshotId":null,"manifest":{"root":"/workspace","entries":{"__workspace_projection__":{"type":"workspace_projection","ephemeral":false,"sourceRoot":"/app/.agentscope/workspace","includeRoots":["AGENTS.md","skills","subagents","knowledge",".skills-cache"]}},"environment":{}}})json"},
    {"agentrun",
     R"json({"type":"agentrun","sessionId":"0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11","snapshot":{"type":"noop","id":"noop"},"workspaceProjectionHash":"7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda","workspaceRootReady":true,"sandboxId":"R1AHVJ4S60AR3DMKT3JZ7NWESF","workspaceRoot":"/mnt/nas/workspace","templateName":"agentscope-default","accountId":"1234567890","region":"cn-hangzhou","mcpServerUrl":"https://mcp.example.com/t/abc","sandboxOwned":true,"workspaceOnNas":true,"manifest":{"root":"/workspace","entries":{"__workspace_projection__":{"type":"workspace_projection","ephemeral":false,"sourceRoot":"/app/.agentscope/workspace","includeRoots":["AGENTS.md","skills","subagents","knowledge",".skills-cache"]}},"environment":{}}})json"},
}};
// clang-format on

}  // namespace ascope::test
