// The failure of a call: the vendor's code and a sentence; and each thread's record of failures.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "acl/acl_base.h"

namespace opserve {

class Failure : public std::runtime_error {
public:
    Failure(int code, const std::string& message) : std::runtime_error(message), code(code) {}
    const int code;
};

// Keeps a text for aclGetRecentErrMsg of this thread; the newest is first.
void note(const std::string& text);

// Records the failure of a function of this thread, and returns its code.
int fail(const char* function, int code, const std::string& message);

// Runs the body of an exported function: nothing is thrown across the C interface.
template <typename Body>
int guarded(const char* function, Body body) noexcept
{
    try {
        body();
        return ACL_SUCCESS;
    } catch (const Failure& failure) {
        return fail(function, failure.code, failure.what());
    } catch (const std::bad_alloc&) {
        return fail(function, ACL_ERROR_BAD_ALLOC, "the program has no memory left");
    } catch (const std::exception& error) {
        return fail(function, ACL_ERROR_INTERNAL_ERROR, error.what());
    }
}

template <typename Pointer>
Pointer* required(Pointer* pointer, const char* name, int code = ACL_ERROR_INVALID_PARAM)
{
    if (pointer == nullptr) throw Failure(code, std::string(name) + " is a null pointer");
    return pointer;
}

}  // namespace opserve
