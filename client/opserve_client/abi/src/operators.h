// The two phases of every operator, for the functions that `opserve abi build` generates.
#pragma once

#include <initializer_list>

#include "aclnn/aclnn_base.h"

#include "acl/acl.h"
#include "objects.h"

namespace opserve {

// An argument of a call, by its field number in the operator's message.
struct Argument {
    enum Kind { TENSOR, ARRAY, NUMBER };

    Argument(int field, const aclTensor* tensor) : field(field), kind(TENSOR), tensor(tensor) {}
    Argument(int field, aclTensor* tensor) : field(field), kind(TENSOR), tensor(tensor), written(true)
    {
    }
    Argument(int field, const aclIntArray* array)
        : field(field), kind(ARRAY), values(array == nullptr ? nullptr : &array->values)
    {
    }
    Argument(int field, const aclBoolArray* array)
        : field(field), kind(ARRAY), values(array == nullptr ? nullptr : &array->values)
    {
    }
    Argument(int field, int64_t number) : field(field), kind(NUMBER), number(number) {}

    int field;
    Kind kind;
    const aclTensor* tensor = nullptr;
    bool written = false;
    const std::vector<int64_t>* values = nullptr;
    int64_t number = 0;
};

// The dtypes and formats that the service knows; generated, too.
extern const std::vector<int> KNOWN_TYPES, KNOWN_FORMATS;

// Phase one. `field`: the operator's number in GetWorkspaceSizeRequest.
aclnnStatus plan(const char* function, int field, std::initializer_list<Argument> arguments,
                 uint64_t* workspace_size, aclOpExecutor** executor);

// Phase two.
aclnnStatus execute(const char* function, void* workspace, uint64_t workspace_size,
                    aclOpExecutor* executor, aclrtStream stream);

}  // namespace opserve
