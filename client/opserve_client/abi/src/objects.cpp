// Tensors, scalars, arrays and lists; sizes and conversions of elements.
#include "objects.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "failure.h"

using namespace opserve;

namespace {

constexpr int NULLPTR = 161001;

struct View {
    const int64_t* shape;
    uint64_t rank;
    aclDataType type;
    const int64_t* strides;
    int64_t offset;
    aclFormat format;
    const int64_t* storage;
    uint64_t storage_rank;
    void* data;
};

std::vector<int64_t> contiguous(const std::vector<int64_t>& shape)
{
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t at = shape.size(); at-- > 1;) strides[at - 1] = strides[at] * shape[at];
    return strides;
}

// Whether the view's arrays are there; its values are checked by phase one.
bool initialize(aclTensor& tensor, const View& view)
{
    if ((view.shape == nullptr && view.rank > 0) ||
        (view.storage == nullptr && view.storage_rank > 0)) {
        return false;
    }
    tensor.shape.assign(view.shape, view.shape + view.rank);
    tensor.strides = contiguous(tensor.shape);
    if (view.strides != nullptr) tensor.strides.assign(view.strides, view.strides + view.rank);
    tensor.storage.assign(view.storage, view.storage + view.storage_rank);
    tensor.type = view.type;
    tensor.format = view.format;
    tensor.offset = view.offset;
    tensor.data = view.data;
    return true;
}

template <typename Array, typename Value>
Array* array_of(const Value* values, uint64_t size)
{
    if (values == nullptr && size > 0) return nullptr;
    return new (std::nothrow) Array{{values, values + size}};
}

template <typename Object>
aclnnStatus destroy(const Object* object)
{
    delete object;
    return ACL_SUCCESS;
}

template <typename List, typename Destroy>
aclnnStatus destroy_list(const List* list, Destroy destroy_entry)
{
    if (list != nullptr) std::for_each(list->values.begin(), list->values.end(), destroy_entry);
    return destroy(list);
}

template <typename Object, typename Value, typename Get>
aclnnStatus get(const char* function, const Object* object, Value* value, Get member)
{
    return guarded(function, [&] {
        *required(value, "the result", NULLPTR) = member(*required(object, "the object", NULLPTR));
    });
}

template <typename Object>
aclnnStatus get_size(const char* function, const Object* object, uint64_t* size)
{
    return get(function, object, size, [](const Object& one) { return one.values.size(); });
}

aclnnStatus get_array(const char* function, const aclTensor* tensor, int64_t** values,
                      uint64_t* count, std::vector<int64_t> aclTensor::*member)
{
    return guarded(function, [&] {
        required(values, "the result", NULLPTR);
        required(count, "the count", NULLPTR);
        const std::vector<int64_t>& found = required(tensor, "the tensor", NULLPTR)->*member;
        *values = new int64_t[found.size()];
        std::copy(found.begin(), found.end(), *values);
        *count = found.size();
    });
}

}  // namespace

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t* stride, int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData)
{
    std::unique_ptr<aclTensor> tensor;
    const int code = guarded("aclCreateTensor", [&] {
        tensor = std::make_unique<aclTensor>();
        const bool made = initialize(*tensor, {viewDims, viewDimsNum, dataType, stride, offset, format,
                                               storageDims, storageDimsNum, tensorData});
        if (!made) throw Failure(NULLPTR, "dimensions are a null pointer");
    });
    return code == ACL_SUCCESS ? tensor.release() : nullptr;
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                          aclDataType dataType, const int64_t* stride, int64_t offset,
                          aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                          void* tensorData)
{
    return guarded("aclInitTensor", [&] {
        const bool made = initialize(*required(tensor, "tensor", NULLPTR),
                                     {viewDims, viewDimsNum, dataType, stride, offset, format,
                                      storageDims, storageDimsNum, tensorData});
        if (!made) throw Failure(NULLPTR, "dimensions are a null pointer");
    });
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType)
{
    if (value == nullptr) return nullptr;
    return new (std::nothrow)
        aclScalar{{static_cast<const char*>(value), aclDataTypeSize(dataType)}, dataType};
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size)
{
    return array_of<aclIntArray>(value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size)
{
    return array_of<aclFloatArray>(value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size)
{
    return array_of<aclBoolArray>(value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size)
{
    return array_of<aclTensorList>(value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size)
{
    return array_of<aclScalarList>(value, size);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy(tensor); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy(scalar); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy(array); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) { return destroy(array); }
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return destroy(array); }

aclnnStatus aclDestroyTensorList(const aclTensorList* array)
{
    return destroy_list(array, aclDestroyTensor);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array)
{
    return destroy_list(array, aclDestroyScalar);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum)
{
    return get_array("aclGetViewShape", tensor, viewDims, viewDimsNum, &aclTensor::shape);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                               uint64_t* storageDimsNum)
{
    return get_array("aclGetStorageShape", tensor, storageDims, storageDimsNum,
                     &aclTensor::storage);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum)
{
    return get_array("aclGetViewStrides", tensor, stridesValue, stridesNum, &aclTensor::strides);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset)
{
    return get("aclGetViewOffset", tensor, offset, [](const aclTensor& one) { return one.offset; });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format)
{
    return get("aclGetFormat", tensor, format, [](const aclTensor& one) { return one.format; });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType)
{
    return get("aclGetDataType", tensor, dataType, [](const aclTensor& one) { return one.type; });
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size)
{
    return get_size("aclGetIntArraySize", array, size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size)
{
    return get_size("aclGetFloatArraySize", array, size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size)
{
    return get_size("aclGetBoolArraySize", array, size);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size)
{
    return get_size("aclGetTensorListSize", tensorList, size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size)
{
    return get_size("aclGetScalarListSize", scalarList, size);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr)
{
    return guarded("aclSetRawTensorAddr",
                   [&] { required(tensor, "tensor", NULLPTR)->data = addr; });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr)
{
    return get("aclGetRawTensorAddr", tensor, addr, [](const aclTensor& one) { return one.data; });
}

size_t aclDataTypeSize(aclDataType dataType)
{
    switch (dataType) {
        case ACL_INT8: case ACL_UINT8: case ACL_BOOL: case ACL_HIFLOAT8: case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN: case ACL_FLOAT8_E8M0:
            return 1;
        case ACL_FLOAT16: case ACL_BF16: case ACL_INT16: case ACL_UINT16:
            return 2;
        case ACL_FLOAT: case ACL_INT32: case ACL_UINT32: case ACL_COMPLEX32:
            return 4;
        case ACL_DOUBLE: case ACL_INT64: case ACL_UINT64: case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        default:
            return 0;
    }
}

float aclFloat16ToFloat(aclFloat16 value)
{
    const int exponent = value >> 10 & 0x1F, mantissa = value & 0x3FF;
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                     : std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
    return (value & 0x8000) != 0 ? -size : size;
}

// To the nearest value, ties to even; beyond the greatest value to it, as the vendor's conversion,
// which keeps neither infinity nor NaN.
aclFloat16 aclFloatToFloat16(float value)
{
    constexpr float MOST = 65504;
    const auto sign = static_cast<aclFloat16>(std::signbit(value) ? 0x8000 : 0);
    const float size = std::fabs(value);
    if (!(size < MOST)) return static_cast<aclFloat16>(sign | 0x7BFF);
    const int exponent = size < std::ldexp(1.0F, -14) ? -14 : std::ilogb(size);
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    // A carry of the mantissa, or 0x400 units of the least exponent, adds one to the exponent.
    return static_cast<aclFloat16>(sign | (units + ((exponent + 14) << 10)));
}
