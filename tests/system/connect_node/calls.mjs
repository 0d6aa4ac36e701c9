// Calls each kind of RPC with @connectrpc/connect-node: node calls.mjs BASE_URL DESCRIPTORS
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

const [, , baseUrl, descriptors] = process.argv;
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const SIZE = 600_000;

for (const useBinaryFormat of [true, false]) {
  const transport = createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat });
  const service = (name) => createClient(registry.getService(`opserve.v1.${name}`), transport);
  const [sessions, memory, streams] = ["SessionService", "MemoryService", "StreamService"].map(service);

  const { devices } = await sessions.listDevices({});
  assert.equal(devices[0].profile, "ascend910b");
  const { session } = await sessions.openSession({ profile: "ascend910b" });

  const { buffer } = await memory.allocate({ session, sizeBytes: BigInt(SIZE) });
  await memory.fill({ session, buffer, value: 7, sizeBytes: BigInt(SIZE) });
  const parts = [];
  for await (const part of memory.read({ session, buffer, sizeBytes: BigInt(SIZE) })) parts.push(part.data);
  assert.ok(parts.length > 1);
  assert.ok(Buffer.concat(parts).equals(Buffer.alloc(SIZE, 7)));

  const error = await failure(sessions.getSession({ session: "none" }));
  assert.equal(error.code, Code.NotFound);
  assert.deepEqual(error.details.map((detail) => detail.type), ["google.rpc.ErrorInfo"]);
  const late = await failure(last(streams.watchStream({ session }, { timeoutMs: 50 })));
  assert.equal(late.code, Code.DeadlineExceeded);
  const rejected = await failure(memory.write(one({ session, buffer, data: new Uint8Array(3) })));
  assert.equal(rejected.code, Code.Unimplemented);

  await sessions.closeSession({ session });
  console.log(`${useBinaryFormat ? "protobuf" : "JSON"}: done`);
}

async function* one(message) {
  yield message;
}

async function failure(call) {
  try {
    await call;
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error("the call did not fail");
}

async function last(messages) {
  let found;
  for await (found of messages);
  return found;
}
