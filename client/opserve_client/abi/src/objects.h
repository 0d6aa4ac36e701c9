// The structs behind the vendor's opaque types.
#pragma once

#include <string>
#include <vector>

#include "aclnn/acl_meta.h"

struct aclTensor {
    std::vector<int64_t> shape, strides, storage;
    aclDataType type = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    int64_t offset = 0;  // elements
    void* data = nullptr;
};

struct aclScalar {
    std::string bytes;
    aclDataType type;
};

struct aclIntArray {
    std::vector<int64_t> values;
};

struct aclFloatArray {
    std::vector<float> values;
};

struct aclBoolArray {
    std::vector<int64_t> values;  // as a message has them
};

struct aclTensorList {
    std::vector<const aclTensor*> values;
};

struct aclScalarList {
    std::vector<const aclScalar*> values;
};

// The record of an executor is in a table: a program may delete the executor itself, which then
// calls no destructor.
struct aclOpExecutor {
    char unused;
};
