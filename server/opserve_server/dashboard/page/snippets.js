// The same call as text: for curl, for the Python client, and in C++ with the vendor's interface.
const MOST_VALUES = 64; // of a tensor in a C++ text
const BYTES = { FLOAT: "float", FLOAT16: "uint16_t", BF16: "uint16_t", DOUBLE: "double", INT8: "int8_t", UINT8: "uint8_t", INT16: "int16_t", INT32: "int32_t", INT64: "int64_t" };

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const python = (value) => JSON.stringify(value).replace(/\b(true|false|null)\b(?=(?:[^"]*"[^"]*")*[^"]*$)/g, (word) => ({ true: "True", false: "False", null: "None" })[word]);
const pascal = (name) => name.split("_").map((part) => part[0].toUpperCase() + part.slice(1)).join("");

export function curlText({ operator, args, arrays, keyed }) {
  const tensors = Object.keys(arrays).length ? " -F tensors=@in.npz" : "";
  return `curl -sS --fail-with-body${keyed ? ' -H "Authorization: Bearer $OPSERVE_API_KEY"' : ""} \\
  -F args=${shell(JSON.stringify(args))} \\
 ${tensors} -o out.npz ${location.origin}/v1/operators/${operator.call}:run
python3 -c "import numpy; print(dict(numpy.load('out.npz')))"
`;
}

export function pythonText({ operator, args, arrays }) {
  const given = Object.entries(args.arguments).map(([name, value]) => {
    if (!arrays[name]) return `        ${name}=${python(value)},`;
    const array = `arrays["${name}"]${value.dtype === "BF16" ? ".view(ml_dtypes.bfloat16)" : ""}`;
    return `        ${name}=${value.format ? `session.upload(${array}, format="${value.format}")` : array},`;
  });
  const terms = Object.entries(args).filter(([name]) => name !== "arguments").map(([name, value], place) => place ? `${name}=${python(value)}` : python(value));
  const bf16 = given.some((line) => line.includes("ml_dtypes"));
  return `${bf16 ? "import ml_dtypes\n" : ""}import numpy as np
from opserve_client import Client, ${pascal(operator.name)}

arrays = np.load("in.npz")
with Client("${location.origin}") as client, client.open_session(${terms.join(", ")}) as session:
    print(session.run(${pascal(operator.name)}(
${given.join("\n")}
    )))
`;
}

/** An argument of the C++ call: its declaration, and its name; "nullptr" where it is absent. */
function declared(parameter, value, arrays, outputs) {
  const { name, kind, written } = parameter, tensor = written ? outputs?.[name] : arrays[name];
  if (kind === "tensor") {
    if (!tensor) return ["", "nullptr"];
    const few = !written && tensor.numbers.length <= MOST_VALUES && ["FLOAT", "DOUBLE"].includes(tensor.dtype);
    const values = few ? `{${Array.from(tensor.numbers).join(", ")}}` : "{}";
    const note = few || written ? "" : "  // copy your numbers to it";
    return [`    aclTensor* ${name} = tensor<${BYTES[tensor.dtype]}>(${values}, {${tensor.shape.join(", ")}}, ACL_${tensor.dtype}, ACL_FORMAT_${formatOf(value, tensor)});${note}`, name];
  }
  if (value === undefined) return ["", kind === "integers" || kind === "booleans" ? "nullptr" : "0"];
  if (kind === "integers") return [`    const std::vector<int64_t> ${name}{${value.join(", ")}};`, `aclCreateIntArray(${name}.data(), ${name}.size())`];
  if (kind === "booleans") return [`    const bool ${name}[] = {${value.join(", ")}};`, `aclCreateBoolArray(${name}, ${value.length})`];
  return ["", kind === "string" ? JSON.stringify(value) : String(value)];
}

const formatOf = (value, tensor) => value?.format ?? ({ 3: "NCL", 4: "NCHW", 5: "NCDHW" }[tensor.shape.length] ?? "ND");

export function cppText({ operator, args, arrays, outputs }) {
  if (!operator.header) return `// ${operator.call} has no C++ interface of the vendor.\n`;
  if (!outputs) return "// Run the call first: the text needs the shapes of its outputs.\n";
  const all = operator.parameters.map((parameter) => declared(parameter, args.arguments[parameter.name], arrays, outputs));
  return `#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "acl/acl.h"
#include "aclnnop/${operator.header}.h"

static void check(int code)
{
    if (code == ACL_SUCCESS) return;
    const char* why = aclGetRecentErrMsg();
    std::printf("%d: %s\\n", code, why != nullptr ? why : "");
    std::exit(1);
}

template <class T>
static aclTensor* tensor(std::vector<T> values, const std::vector<int64_t>& shape, aclDataType type, aclFormat format)
{
    size_t elements = 1;
    for (int64_t size : shape) elements *= size;
    values.resize(elements);
    void* address = nullptr;
    check(aclrtMalloc(&address, elements * sizeof(T) + 1, ACL_MEM_MALLOC_HUGE_FIRST));
    check(aclrtMemcpy(address, elements * sizeof(T), values.data(), elements * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE));
    return aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, format, shape.data(), shape.size(), address);
}

int main()
{
    check(aclInit(nullptr));
    check(aclrtSetDevice(0));
    aclrtStream stream;
    check(aclrtCreateStream(&stream));
${all.map(([line]) => line).filter(Boolean).join("\n")}
    uint64_t size = 0;
    void* workspace = nullptr;
    aclOpExecutor* executor = nullptr;
    check(${operator.call}GetWorkspaceSize(${all.map(([, name]) => name).join(", ")}, &size, &executor));
    if (size > 0) check(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    check(${operator.call}(workspace, size, executor, stream));
    check(aclrtSynchronizeStream(stream));
    std::printf("done\\n");
    check(aclrtResetDevice(0));
    check(aclFinalize());
}
`;
}
