// Descriptions of tensors in the vendor's unit tests: phase one alone, so without memory.
#pragma once

#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "opdev/op_errno.h"

class TensorDesc {
public:
    using Sizes = std::vector<int64_t>;

    TensorDesc(Sizes shape, aclDataType type, aclFormat format, Sizes strides = {},
               int64_t offset = 0, Sizes storage = {})
        : shape_(shape), strides_(strides), storage_(storage.empty() ? shape : storage), type_(type),
          format_(format), offset_(offset)
    {
    }

    TensorDesc& ValueRange(double, double) { return *this; }
    TensorDesc& Precision(double, double) { return *this; }
    template <typename T>
    TensorDesc& Value(const std::vector<T>&)
    {
        return *this;
    }

    aclTensor* ToAclTypeRawPtr() const
    {
        return aclCreateTensor(shape_.data(), shape_.size(), type_,
                               strides_.empty() ? nullptr : strides_.data(), offset_, format_,
                               storage_.data(), storage_.size(), nullptr);
    }

private:
    Sizes shape_, strides_, storage_;
    aclDataType type_;
    aclFormat format_;
    int64_t offset_;
};
