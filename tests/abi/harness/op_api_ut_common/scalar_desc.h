// Descriptions of scalars and arrays in the vendor's unit tests.
#pragma once

#include <vector>

#include "aclnn/aclnn_base.h"

struct ScalarDesc {
    ScalarDesc(double) {}
};

class IntArrayDesc {
public:
    IntArrayDesc(std::vector<int64_t> values) : values_(std::move(values)) {}
    aclIntArray* ToAclTypeRawPtr() const { return aclCreateIntArray(values_.data(), values_.size()); }

private:
    std::vector<int64_t> values_;
};

class BoolArrayDesc {
public:
    BoolArrayDesc(const std::vector<bool>& values) : values_(values.begin(), values.end()) {}
    aclBoolArray* ToAclTypeRawPtr() const
    {
        return aclCreateBoolArray(reinterpret_cast<const bool*>(values_.data()), values_.size());
    }

private:
    std::vector<char> values_;
};
