// Phase one of an operator with described arguments, as the vendor's unit tests call it.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "op_api_ut_common/scalar_desc.h"
#include "op_api_ut_common/tensor_desc.h"
#include "opdev/platform.h"

namespace ut {

template <typename T, typename = void>
struct IsDescription : std::false_type {};
template <typename T>
struct IsDescription<T, std::void_t<decltype(std::declval<T>().ToAclTypeRawPtr())>> : std::true_type {};

template <typename T>
auto converted(const T& value)
{
    if constexpr (IsDescription<T>::value) {
        return value.ToAclTypeRawPtr();
    } else {
        return value;
    }
}

struct Call {
    std::function<aclnnStatus(uint64_t*, aclOpExecutor**)> first;

    aclnnStatus TestGetWorkspaceSize(uint64_t* size)
    {
        aclOpExecutor* executor = nullptr;
        return first(size, &executor);
    }
    aclnnStatus TestGetWorkspaceSize(uint64_t* size, aclOpExecutor* executor)
    {
        return first(size, &executor);
    }
    void TestPrecision() {}
};

template <typename Function, typename Inputs, typename Outputs, typename... Others>
Call call(Function function, Inputs inputs, Outputs outputs, Others... others)
{
    const auto arguments = std::tuple_cat(inputs, outputs, std::make_tuple(others...));
    return {[function, arguments](uint64_t* size, aclOpExecutor** executor) {
        const auto made = [&](const auto&... values) {
            return function(converted(values)..., size, executor);
        };
        return std::apply(made, arguments);
    }};
}

}  // namespace ut

#define INPUT(...) std::make_tuple(__VA_ARGS__)
#define OUTPUT(...) std::make_tuple(__VA_ARGS__)
#define OP_API_UT(name, ...) ut::call(name##GetWorkspaceSize, __VA_ARGS__)
